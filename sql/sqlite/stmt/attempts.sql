-- attempts: every attempt of a message, the one in progress included. ?1 message id.
-- Columns: attempt number, outcome (0: in progress), worker, code, error, reference, claimed at, completed at, latency.
WITH message(n) AS (
    SELECT n FROM outbox_message WHERE id = ?1 UNION ALL SELECT n FROM outbox_archived WHERE id = ?1
)
SELECT a.attempt_no, a.outcome, a.worker, a.code, a.error, a.reference, a.claimed_at, a.completed_at, a.latency
  FROM message m JOIN outbox_attempt a ON a.n = m.n
UNION ALL
SELECT q.attempts, 0, q.holder, NULL, NULL, NULL, q.claimed_at, NULL, NULL
  FROM message m JOIN outbox_queue q ON q.n = m.n WHERE q.state = 1
 ORDER BY 1
