-- list_edge_subject: the number of the last of so many messages about a domain object, the newest first. ?1 how many, ?2 below this number, ?3 subject. Column: n; no row: there are fewer.
SELECT n FROM outbox_message WHERE n < ?2 AND subject = ?3 ORDER BY n DESC LIMIT 1 OFFSET ?1 - 1
