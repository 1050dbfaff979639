-- status: a row per topic. Columns: namespace, topic, pending, due, processing, stuck, parked, dead, oldest_due_s,
-- paused, delayed.
SELECT namespace, topic, pending, due, processing, stuck, parked, dead, oldest_due_s, paused, delayed
  FROM outbox_status
 ORDER BY namespace, topic
