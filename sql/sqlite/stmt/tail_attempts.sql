-- tail_attempts: attempts that ended. ?1 and ?2 after this time and message, ?3 none older than this, ?4 at most so many.
-- Columns: those of tail_messages, then what is known of the attempt.
SELECT a.completed_at, a.n, a.completed_at, coalesce(m.id, x.id), coalesce(m.created_at, x.created_at), l.namespace, l.topic,
       coalesce(m.tenant_id, x.tenant_id), coalesce(m.key, x.key), coalesce(m.subject, x.subject), m.recipient,
       coalesce(m.correlation_id, x.correlation_id), a.attempt_no, a.outcome, a.worker, a.code, a.error, a.reference, a.latency
  FROM outbox_attempt a
  LEFT JOIN outbox_message m ON m.n = a.n
  LEFT JOIN outbox_archived x ON x.n = a.n
  LEFT JOIN outbox_lane l ON l.n = coalesce(m.lane, x.lane)
 WHERE (a.completed_at, a.n) > (?1, ?2) AND a.completed_at >= ?3
 ORDER BY a.completed_at, a.n
 LIMIT ?4
