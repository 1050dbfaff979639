-- ready_tenant: the same for tenant ?7.
SELECT n, state, lane, prio, due, sid, seq, expires_at, max_attempts, attempts, spent, redriven, claimed_at, holder,
       deferred, bytes, lost
  FROM outbox_queue INDEXED BY outbox_queue_tenant
 WHERE state = 0 AND tenant_id = ?7 AND lane = ?1 AND prio = ?2 AND due BETWEEN ?4 AND ?3 AND (due, n) > (?4, ?5)
 ORDER BY due, n
 LIMIT ?6
