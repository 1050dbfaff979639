-- discard: gives dead letters up for good, on record. Parameters and column as in retry.
select @schema@.discard(ids => $1::pg_catalog.uuid[], namespace => $2::pg_catalog.text, topic => $3::pg_catalog.text,
                        tenant => $4::pg_catalog.uuid,
                        code => $5::pg_catalog.text, before => $6::pg_catalog.timestamptz,
                        max_count => $7::pg_catalog.int4, actor => $8::pg_catalog.text,
                        reason => $9::pg_catalog.text)
