-- list: a page of messages, newest first, among those with numbers between two: so it costs the same however many messages there are. The
-- other list_ files are the same for filters that an index serves; the list_edge_ files say how far to look.
-- ?1 ids as a JSON array, ?2 namespace, ?3 topic (each may be a pattern), ?4 tenant, ?5 key, ?6 subject, ?7 recipient, ?8 correlation id, ?9 code
-- of the last failure (a pattern), ?10 part of its text, ?11 status, ?12 created before, ?13 created since, ?14 attempts at least, ?15 attempts
-- below, ?16 and ?17 first and last id: null means all. ?18 below this number, ?19 from this number on, ?20 at most so many, ?21 with
-- payload. Columns: list.c counts on this order.
SELECT s.id, s.status, s.namespace, s.topic, s.tenant_id, s.key, s.dedupe_key, s.subject, s.recipient, s.correlation_id,
       s.headers, s.content_type, s.locked_by, s.last_code, s.last_error, s.dead_reason,
       CASE WHEN ?21 THEN s.payload END, s.seq, s.priority, s.attempts, s.spent, s.max_attempts, s.max_attempts_from, s.deferred, s.redriven, s.parked,
       s.created_at, s.updated_at, s.next_attempt_at, s.locked_until, s.delivered_at, s.expires_at, s.encoding
  FROM outbox_state s
 WHERE s.n < ?18 AND s.n >= ?19
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
 ORDER BY s.n DESC
 LIMIT ?20
