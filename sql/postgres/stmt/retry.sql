-- retry: gives dead letters a new life, on record.
-- $1 ids, $2 namespace, $3 topic, $4 tenant, $5 code, $6 created before, $7 at most so many, $8 actor, $9 reason.
-- Column: how many.
select @schema@.retry(ids => $1::uuid[], namespace => $2::text, topic => $3::text, tenant => $4::uuid,
                      code => $5::text, before => $6::timestamptz, max_count => $7::int, actor => $8::text,
                      reason => $9::text)
