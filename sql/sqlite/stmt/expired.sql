-- expired: what is out in a lane under a lease that has ended, and is the first of its key. The others wait for that one,
-- however long, and so many of them there may be that they would hide the rest.
-- ?1 lane, ?2 now, ?3 tenant or null, ?4 at most so many. Columns as in ready.
SELECT n, state, lane, prio, due, sid, seq, expires_at, max_attempts, attempts, spent, redriven, claimed_at, holder,
       deferred, bytes, lost
  FROM outbox_queue q
 WHERE state = 1 AND lane = ?1 AND until <= ?2 AND (?3 IS NULL OR tenant_id = ?3)
   AND NOT EXISTS (SELECT 1 FROM outbox_queue p WHERE p.sid = q.sid AND p.seq < q.seq)
 ORDER BY until
 LIMIT ?4
