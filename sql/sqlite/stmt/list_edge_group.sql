-- list_edge_group: the number of the last of so many failures of a fingerprint, the newest first. ?1 how many, ?2 below this number, ?3 fingerprint. Column: n; no row: there are fewer.
SELECT n FROM outbox_queue WHERE fingerprint = ?3 AND n < ?2
UNION ALL
SELECT n FROM outbox_dead WHERE fingerprint = ?3 AND n < ?2 AND discarded_at IS NULL
 ORDER BY n DESC LIMIT 1 OFFSET ?1 - 1
