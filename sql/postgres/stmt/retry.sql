-- retry: gives dead letters a new life, on record.
-- $1 ids, $2 namespace, $3 topic, $4 tenant, $5 code, $6 created before, $7 at most so many, $8 actor, $9 reason.
-- Column: how many.
select @schema@.retry(ids => $1::pg_catalog.uuid[], namespace => $2::pg_catalog.text, topic => $3::pg_catalog.text,
                      tenant => $4::pg_catalog.uuid,
                      code => $5::pg_catalog.text, before => $6::pg_catalog.timestamptz,
                      max_count => $7::pg_catalog.int4, actor => $8::pg_catalog.text,
                      reason => $9::pg_catalog.text)
