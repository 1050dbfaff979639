-- list_after: the number of a message, or, if it is gone, one above those of the messages before it. ?1 id. Column: n.
SELECT coalesce((SELECT n FROM outbox_message WHERE id = ?1),
                (SELECT n + 1 FROM outbox_message WHERE id < ?1 ORDER BY id DESC LIMIT 1), 0)
