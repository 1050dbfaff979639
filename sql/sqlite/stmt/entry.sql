-- entry: a message by its number ?1, where it can be taken now, ?2, and is of tenant ?3 or that is null. Columns as in ready.
SELECT n, state, lane, prio, due, sid, seq, expires_at, max_attempts, attempts, spent, redriven, claimed_at, holder,
       deferred, bytes, lost
  FROM outbox_queue
 WHERE n = ?1 AND CASE state WHEN 0 THEN due <= ?2 WHEN 1 THEN until <= ?2 END AND (?3 IS NULL OR tenant_id = ?3)
