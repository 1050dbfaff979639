-- history: the rows of the last minutes, oldest first. $1 how many minutes.
-- Columns: at, worker, delivered, failed, dead, latencies, pending, open, age of the oldest in ms, estimated.
select s.at, s.worker, s.delivered, s.failed, s.dead, s.latencies, s.pending, s.open,
       (s.oldest_s operator(pg_catalog.*) 1000)::pg_catalog.int8, s.estimated
  from @schema@.series s
 where s.at operator(pg_catalog.>=) (pg_catalog.date_trunc('minute', pg_catalog.clock_timestamp())
           operator(pg_catalog.-) pg_catalog.make_interval(mins => $1::pg_catalog.int4 operator(pg_catalog.-) 1))
 order by s.at
