-- id_of: the id of a message. ?1 n. Column: id.
SELECT id FROM outbox_message WHERE n = ?1
