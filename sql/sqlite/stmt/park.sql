-- park: a ready message waits for the one before it. ?1 n.
UPDATE outbox_queue SET state = 2 WHERE n = ?1 AND state = 0
