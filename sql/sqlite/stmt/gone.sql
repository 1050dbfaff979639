-- gone: messages leave the queue, by number from ?1 to ?2.
DELETE FROM outbox_queue WHERE n BETWEEN ?1 AND ?2
