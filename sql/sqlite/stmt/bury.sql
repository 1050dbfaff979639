-- bury: a message of the queue becomes a dead letter. ?1 n, ?2 reason, ?3 code, ?4 error, ?5 now, ?6 fingerprint.
INSERT INTO outbox_dead (n, lane, attempts, spent, redriven, reason, code, error, died_at, budget, by_sink, fingerprint)
SELECT q.n, q.lane, q.attempts, q.spent, q.redriven, ?2, ?3, ?4, ?5, q.max_attempts, q.by_sink, ?6 FROM outbox_queue q WHERE q.n = ?1
