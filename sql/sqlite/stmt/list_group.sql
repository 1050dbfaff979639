-- list_group: dead letters, and messages of the queue, of one fingerprint. Parameters and columns as in list; ?22 the fingerprint.
SELECT s.id, s.status, s.namespace, s.topic, s.tenant_id, s.key, s.dedupe_key, s.subject, s.recipient, s.correlation_id,
       s.headers, s.content_type, s.locked_by, s.last_code, s.last_error, s.dead_reason,
       CASE WHEN ?21 THEN s.payload END, s.seq, s.priority, s.attempts, s.spent, s.max_attempts, s.max_attempts_from, s.deferred, s.redriven, s.parked,
       s.created_at, s.updated_at, s.next_attempt_at, s.locked_until, s.delivered_at, s.expires_at, s.encoding, x.n AS number
  FROM outbox_queue x CROSS JOIN outbox_state s ON s.n = x.n
 WHERE x.n < ?18 AND x.n >= ?19 AND x.fingerprint = ?22 AND x.state <> 3
   AND (?1 IS NULL OR s.id IN (SELECT value FROM json_each(?1)))
   AND (?2 IS NULL OR s.namespace GLOB replace(?2, '[', '[[]'))
   AND (?3 IS NULL OR s.topic GLOB replace(?3, '[', '[[]'))
   AND (?4 IS NULL OR s.tenant_id = ?4)
   AND (?5 IS NULL OR s.key = ?5)
   AND (?6 IS NULL OR s.subject = ?6)
   AND (?7 IS NULL OR s.recipient = ?7)
   AND (?8 IS NULL OR s.correlation_id = ?8)
   AND (?9 IS NULL OR s.last_code GLOB replace(?9, '[', '[[]'))
   AND (?10 IS NULL OR instr(lower(s.last_error), lower(?10)) > 0)
   AND (?11 IS NULL OR s.status = ?11)
   AND (?12 IS NULL OR s.created_at < ?12)
   AND (?13 IS NULL OR s.created_at >= ?13)
   AND (?14 IS NULL OR s.attempts >= ?14)
   AND (?15 IS NULL OR s.attempts < ?15)
   AND (?16 IS NULL OR s.id BETWEEN ?16 AND ?17)
UNION ALL
SELECT s.id, s.status, s.namespace, s.topic, s.tenant_id, s.key, s.dedupe_key, s.subject, s.recipient, s.correlation_id,
       s.headers, s.content_type, s.locked_by, s.last_code, s.last_error, s.dead_reason,
       CASE WHEN ?21 THEN s.payload END, s.seq, s.priority, s.attempts, s.spent, s.max_attempts, s.max_attempts_from, s.deferred, s.redriven, s.parked,
       s.created_at, s.updated_at, s.next_attempt_at, s.locked_until, s.delivered_at, s.expires_at, s.encoding, x.n AS number
  FROM outbox_dead x CROSS JOIN outbox_state s ON s.n = x.n
 WHERE x.n < ?18 AND x.n >= ?19 AND x.fingerprint = ?22 AND x.discarded_at IS NULL
   AND (?1 IS NULL OR s.id IN (SELECT value FROM json_each(?1)))
   AND (?2 IS NULL OR s.namespace GLOB replace(?2, '[', '[[]'))
   AND (?3 IS NULL OR s.topic GLOB replace(?3, '[', '[[]'))
   AND (?4 IS NULL OR s.tenant_id = ?4)
   AND (?5 IS NULL OR s.key = ?5)
   AND (?6 IS NULL OR s.subject = ?6)
   AND (?7 IS NULL OR s.recipient = ?7)
   AND (?8 IS NULL OR s.correlation_id = ?8)
   AND (?9 IS NULL OR s.last_code GLOB replace(?9, '[', '[[]'))
   AND (?10 IS NULL OR instr(lower(s.last_error), lower(?10)) > 0)
   AND (?11 IS NULL OR s.status = ?11)
   AND (?12 IS NULL OR s.created_at < ?12)
   AND (?13 IS NULL OR s.created_at >= ?13)
   AND (?14 IS NULL OR s.attempts >= ?14)
   AND (?15 IS NULL OR s.attempts < ?15)
   AND (?16 IS NULL OR s.id BETWEEN ?16 AND ?17)
 ORDER BY number DESC
 LIMIT ?20
