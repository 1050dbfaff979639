-- redrive_held: the same for one that holds its key: it goes first. Changes no row for others. ?1 n, ?2 now.
UPDATE outbox_queue
   SET state = CASE WHEN EXISTS (SELECT 1 FROM outbox_queue q WHERE q.sid = outbox_queue.sid AND q.seq < outbox_queue.seq)
                    THEN 2 ELSE 0 END,
       due = ?2, spent = 0, lost = 0, deferred = 0, redriven = 1, expires_at = NULL, updated_at = ?2
 WHERE n = ?1 AND state = 3
