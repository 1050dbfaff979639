-- purge_pick: of these, the ones that are done. ?1 number to begin after, ?2 last number, ?3 made and settled before.
SELECT m.n FROM outbox_message m
 WHERE m.n > ?1 AND m.n <= ?2 AND m.created_at < ?3 AND m.lane IS NOT NULL
   AND NOT (m.bytes IS NOT NULL AND m.n > (SELECT admitted FROM outbox_log))
   AND NOT EXISTS (SELECT 1 FROM outbox_queue q WHERE q.n = m.n)
   AND NOT EXISTS (SELECT 1 FROM outbox_dead d WHERE d.n = m.n AND d.discarded_at IS NULL)
   AND NOT EXISTS (SELECT 1 FROM outbox_attempt a WHERE a.n = m.n AND a.completed_at >= ?3)
