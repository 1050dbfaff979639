-- expired: what is out in a lane under a lease that has ended.
-- ?1 lane, ?2 now, ?3 tenant or null, ?4 at most so many. Columns as in ready.
SELECT n, state, lane, prio, due, sid, seq, expires_at, max_attempts, attempts, spent, redriven, claimed_at, holder
  FROM outbox_queue
 WHERE state = 1 AND lane = ?1 AND until <= ?2 AND (?3 IS NULL OR tenant_id = ?3)
 ORDER BY until
 LIMIT ?4
