-- follow: the rows of a key after a seq. ?1 sid, ?2 seq, ?3 at most so many. Columns as in ready.
SELECT n, state, lane, prio, due, sid, seq, expires_at, max_attempts, attempts, spent, redriven, claimed_at, holder,
       deferred, bytes, lost
  FROM outbox_queue
 WHERE sid = ?1 AND seq > ?2
 ORDER BY seq
 LIMIT ?3
