-- gone: a message leaves the queue. ?1 n.
DELETE FROM outbox_queue WHERE n = ?1
