-- expired: what is out under a lease that has ended, and is the first of its key. The others wait for that one, however long,
-- and so many of them there may be that they would hide the rest.
-- ?1 now, ?2 and ?3 the lease's end and number to begin after, ?4 tenant or null, ?5 at most so many. Columns as in ready, until.
SELECT n, state, lane, prio, due, sid, seq, expires_at, max_attempts, attempts, spent, redriven, claimed_at, holder,
       deferred, bytes, lost, until
  FROM outbox_queue q
 WHERE state = 1 AND until BETWEEN ?2 AND ?1 AND (until, n) > (?2, ?3) AND (?4 IS NULL OR tenant_id = ?4)
   AND NOT EXISTS (SELECT 1 FROM outbox_queue p WHERE p.sid = q.sid AND p.seq < q.seq)
 ORDER BY until, n
 LIMIT ?5
