-- beat: a relay tells that it lives. $1 worker, $2 host, $3 pid, $4 version, $5 state, $6 time between beats, $7 info.
-- Column: whether it leads.
select @schema@.beat(worker => $1::text, host => $2::text, pid => $3::int, version => $4::text, state => $5::text,
                     every => $6::interval, info => $7::text::jsonb)
