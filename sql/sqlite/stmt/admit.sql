-- admit: the next messages of the log go into the queue: the trigger outbox_admit does it. ?1 at most so many.
UPDATE outbox_log SET admitted = min(admitted + ?1, (SELECT max(n) FROM outbox_message))
 WHERE one = 1 AND admitted < (SELECT max(n) FROM outbox_message)
