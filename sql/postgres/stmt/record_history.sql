-- record_history: adds a row to the last hour. $1 worker, $2 delivered, $3 failed, $4 dead, $5 latencies; by the leader $6 pending, $7 open,
-- $8 age of the oldest in ms, $9 whether these are estimates.
select @schema@.record_history($1::pg_catalog.text, $2::pg_catalog.int8, $3::pg_catalog.int8, $4::pg_catalog.int8, $5::pg_catalog.text,
                               $6::pg_catalog.int8, $7::pg_catalog.int8, $8::pg_catalog.int8, $9::pg_catalog.bool)
