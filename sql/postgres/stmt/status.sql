-- status: a row per topic. Columns: namespace, topic, pending, due, processing, stuck, parked, dead, oldest_due_s,
-- paused, delayed.
select namespace, topic, pending::pg_catalog.int8, due::pg_catalog.int8, processing::pg_catalog.int8,
       stuck::pg_catalog.int8, parked::pg_catalog.int8, dead::pg_catalog.int8,
       oldest_due_s::pg_catalog.float8, paused, delayed::pg_catalog.int8
from @schema@.status
order by namespace, topic
