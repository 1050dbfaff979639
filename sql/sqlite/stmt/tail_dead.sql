-- tail_dead: messages that became dead letters. ?1 and ?2 after this time and message, ?3 none older than this, ?4 at most so many.
-- Columns: those of tail_messages, then attempts, code, error, and why.
SELECT d.died_at, d.n, d.died_at, m.id, m.created_at, l.namespace, l.topic, m.tenant_id, m.key, m.subject, m.recipient, m.correlation_id,
       d.attempts, d.code, d.error, d.reason
  FROM outbox_dead d
  JOIN outbox_message m ON m.n = d.n
  LEFT JOIN outbox_lane l ON l.n = d.lane
 WHERE (d.died_at, d.n) > (?1, ?2) AND d.died_at >= ?3
 ORDER BY d.died_at, d.n
 LIMIT ?4
