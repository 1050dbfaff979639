-- record_history: adds a row to the last hour. ?1 now, ?2 worker, ?3 delivered, ?4 failed, ?5 dead, ?6 latencies; by the leader ?7 pending,
-- ?8 open, ?9 age of the oldest in ms, ?10 whether these are estimates.
INSERT INTO outbox_series (at, worker, delivered, failed, dead, latencies, pending, open, oldest_ms, estimated)
VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10)
