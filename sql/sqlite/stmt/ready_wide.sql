-- ready_wide: what is due at one priority in any lane but the first few, oldest first. ?1 prio, ?2 now, ?3 and ?4 the due time and number to begin
-- after, ?5 at most so many. Columns as in ready.
SELECT n, state, lane, prio, due, sid, seq, expires_at, max_attempts, attempts, spent, redriven, claimed_at, holder,
       deferred, bytes, lost
  FROM outbox_queue
 WHERE state = 0 AND lane > 32 AND prio = ?1 AND due BETWEEN ?3 AND ?2 AND (due, n) > (?3, ?4)
 ORDER BY due, n
 LIMIT ?5
