-- hold: a dead letter stays in the queue and holds its key, where the namespace says so. ?1 n.
UPDATE outbox_queue
   SET state = 3, until = NULL, claimed_at = NULL, ceiling = NULL, retry_base = NULL, retry_cap = NULL, prefetch = 0,
       holder = NULL
 WHERE n = ?1 AND sid IS NOT NULL AND (SELECT l.hold FROM outbox_lane l WHERE l.n = outbox_queue.lane)
