-- status: a row per topic. Columns: namespace, topic, pending, due, processing, stuck, parked, dead, oldest_due_s,
-- paused, delayed, retrying, oldest_undelivered_s, last_code, last_error, last_error_at in microseconds, estimated, dead_last_hour.
SELECT namespace, topic, pending, due, processing, stuck, parked, dead, oldest_due_s, paused, delayed, retrying,
       oldest_undelivered_s, last_code, last_error, last_error_us, estimated, dead_last_hour
  FROM outbox_figures
 ORDER BY namespace, topic
