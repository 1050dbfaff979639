-- tail_messages: messages after a number. ?1 that number, ?2 unused, ?3 none older than this, ?4 at most so many.
-- Columns: as all tail_ statements, src/store/sqlite/tail.c counts on their order.
SELECT m.n, 0, m.created_at, m.id, m.created_at, l.namespace, l.topic, m.tenant_id, m.key, m.subject, m.recipient, m.correlation_id
  FROM outbox_message m
  LEFT JOIN outbox_lane l ON l.n = m.lane
 WHERE m.n > ?1 AND m.created_at >= ?3 AND ?2 IS NOT NULL
 ORDER BY m.n
 LIMIT ?4
