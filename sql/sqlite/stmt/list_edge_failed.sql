-- list_edge_failed: the number of the last of so many dead letters and messages of the queue, the newest first. ?1 how many, ?2 below this number. Column: n; no row: there are fewer.
SELECT n FROM outbox_queue WHERE n < ?2
UNION ALL
SELECT n FROM outbox_dead WHERE n < ?2
 ORDER BY n DESC LIMIT 1 OFFSET ?1 - 1
