-- status: a row per topic. Columns: namespace, topic, pending, due, processing, stuck, parked, dead, oldest_pending_s,
-- paused.
select namespace, topic, pending::bigint, due::bigint, processing::bigint, stuck::bigint, parked::bigint, dead::bigint,
       oldest_pending_s::double precision, paused
from @schema@.status
order by namespace, topic
