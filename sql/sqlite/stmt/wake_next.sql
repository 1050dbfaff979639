-- wake_next: the row of a key after a seq may be prefetched. ?1 sid, ?2 seq. Columns: n, prio, due.
UPDATE outbox_queue SET state = 0
 WHERE state = 2 AND n = (SELECT q.n FROM outbox_queue q WHERE q.sid = ?1 AND q.seq > ?2 ORDER BY q.seq LIMIT 1)
RETURNING n, prio, due
