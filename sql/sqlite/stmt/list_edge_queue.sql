-- list_edge_queue: the number of the last of so many messages in the queue and the log, the newest first. ?1 how many, ?2 below this number. Column: n; no row: there are fewer.
SELECT n FROM outbox_queue WHERE n < ?2
UNION ALL
SELECT m.n FROM outbox_log g CROSS JOIN outbox_message m ON m.n > g.admitted WHERE m.bytes IS NOT NULL AND m.n < ?2
 ORDER BY n DESC LIMIT 1 OFFSET ?1 - 1
