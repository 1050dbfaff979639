-- purge_message: a message that is done. ?1 n.
DELETE FROM outbox_message WHERE n = ?1
