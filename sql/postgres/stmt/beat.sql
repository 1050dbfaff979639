-- beat: a relay tells that it lives. $1 worker, $2 host, $3 pid, $4 version, $5 state, $6 time between beats, $7 info.
-- Column: whether it leads.
select @schema@.beat(worker => $1::pg_catalog.text, host => $2::pg_catalog.text, pid => $3::pg_catalog.int4,
                     version => $4::pg_catalog.text, state => $5::pg_catalog.text,
                     every => $6::pg_catalog.interval, info => $7::pg_catalog.text::pg_catalog.jsonb)
