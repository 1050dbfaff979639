-- list_edge: the number of the last of so many messages, the newest first. ?1 how many, ?2 below this number. Column: n; no row: there are fewer.
SELECT n FROM outbox_message WHERE n < ?2 ORDER BY n DESC LIMIT 1 OFFSET ?1 - 1
