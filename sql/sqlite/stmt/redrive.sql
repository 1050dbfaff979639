-- redrive: a dead letter lives again, with a fresh budget. Its key went on without it, so it has no order any more.
-- ?1 n, ?2 now.
INSERT INTO outbox_queue (n, state, lane, prio, due, tenant_id, bytes, max_attempts, attempts, redriven, updated_at)
SELECT m.n, 0, m.lane, m.priority, ?2, m.tenant_id,
       coalesce((SELECT f.size FROM outbox_frame f WHERE f.n = m.n), length(CAST(m.payload AS BLOB))), coalesce(m.max_attempts, l.max_attempts),
       d.attempts, 1, ?2
  FROM outbox_dead d JOIN outbox_message m ON m.n = d.n JOIN outbox_lane l ON l.n = m.lane
 WHERE d.n = ?1
