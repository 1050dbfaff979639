-- purge_archived: the last of a message. ?1 n.
DELETE FROM outbox_archived WHERE n = ?1
