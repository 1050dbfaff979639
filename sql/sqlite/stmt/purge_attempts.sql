-- purge_attempts: the attempts of a message. ?1 n.
DELETE FROM outbox_attempt WHERE n = ?1
