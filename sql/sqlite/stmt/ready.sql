-- ready: what is due in a lane at one priority, oldest first.
-- ?1 lane, ?2 prio, ?3 now, ?4 and ?5 the due time and number to begin after, ?6 at most so many.
-- Columns: struct ob_sqlite_entry reads them in this order.
SELECT n, state, lane, prio, due, sid, seq, expires_at, max_attempts, attempts, spent, redriven, claimed_at, holder,
       deferred, bytes, lost
  FROM outbox_queue
 WHERE state = 0 AND lane = ?1 AND prio = ?2 AND due BETWEEN ?4 AND ?3 AND (due, n) > (?4, ?5)
 ORDER BY due, n
 LIMIT ?6
