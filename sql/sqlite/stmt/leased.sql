-- leased: the leases of messages by number, from ?1 to ?2.
-- Columns: n, id, attempts, sid, spent, ceiling, expires_at, claimed_at, holder, retry_base, retry_cap, deferred.
SELECT q.n, m.id, q.attempts, q.sid, q.spent, q.ceiling, q.expires_at, q.claimed_at, q.holder, q.retry_base, q.retry_cap,
       q.deferred
  FROM outbox_queue q CROSS JOIN outbox_message m ON m.n = q.n
 WHERE q.n BETWEEN ?1 AND ?2 AND q.state = 1
 ORDER BY q.n
