-- status: a row per topic. Columns: namespace, topic, pending, due, processing, stuck, parked, dead, oldest_due_s,
-- paused, delayed, retrying, oldest_undelivered_s, last_code, last_error, last_error_at, estimated, dead_last_hour.
select namespace, topic, pending, due, processing, stuck, parked, dead, oldest_due_s, paused, delayed, retrying,
       oldest_undelivered_s, last_code, last_error, last_error_at, estimated, dead_last_hour
from @schema@.status
order by namespace, topic
