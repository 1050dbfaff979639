-- tail_acts: acts of operators. ?1 after this number, ?2 unused, ?3 none older than this, ?4 at most so many.
-- Columns: those of tail_messages, then actor, action, reason and detail.
SELECT a.n, 0, a.at, a.message_id, m.created_at, l.namespace, l.topic, coalesce(m.tenant_id, a.tenant_id), m.key, m.subject, m.recipient,
       m.correlation_id, a.actor, a.action, a.reason, a.detail
  FROM outbox_act a
  LEFT JOIN outbox_message m ON m.id = a.message_id
  LEFT JOIN outbox_lane l ON l.n = m.lane
 WHERE a.n > ?1 AND a.at >= ?3 AND ?2 IS NOT NULL
 ORDER BY a.n
 LIMIT ?4
