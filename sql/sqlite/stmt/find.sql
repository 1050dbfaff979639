-- find: the number of a message. ?1 id.
SELECT n FROM outbox_message WHERE id = ?1
