-- discard: gives dead letters up for good, on record. Parameters and column as in retry.
select @schema@.discard(ids => $1::uuid[], namespace => $2::text, topic => $3::text, tenant => $4::uuid,
                        code => $5::text, before => $6::timestamptz, max_count => $7::int, actor => $8::text,
                        reason => $9::text)
