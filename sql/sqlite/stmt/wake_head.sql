-- wake_head: the first row of a key is never parked. ?1 sid. Columns: n, prio, due.
UPDATE outbox_queue SET state = 0
 WHERE state = 2 AND n = (SELECT q.n FROM outbox_queue q WHERE q.sid = ?1 ORDER BY q.seq LIMIT 1)
RETURNING n, prio, due
