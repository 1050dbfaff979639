-- history: the rows from a time on, oldest first. ?1 the time.
-- Columns: at, worker, delivered, failed, dead, latencies, pending, open, age of the oldest in ms, estimated.
SELECT at, worker, delivered, failed, dead, latencies, pending, open, oldest_ms, estimated FROM outbox_series WHERE at >= ?1 ORDER BY at, n
