-- meet_numbers: the numbers of messages, in the order of their commits. ?1 ids as a JSON array, ?2 tenant, null: any.
-- Columns: n, whether it waits in the log.
SELECT m.n, m.bytes IS NOT NULL AND m.n > g.admitted
  FROM outbox_message m CROSS JOIN outbox_log g
 WHERE m.id IN (SELECT value FROM json_each(?1)) AND m.lane IS NOT NULL AND (?2 IS NULL OR m.tenant_id = ?2)
 ORDER BY m.n
