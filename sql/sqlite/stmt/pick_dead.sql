-- pick_dead: dead letters by what is known of them.
-- ?1 ids as a JSON array, ?2 namespace, ?3 topic (each may be a pattern), ?4 tenant, ?5 key, ?6 subject, ?7 code, ?8 created before: null means
-- all. ?9 number to begin after, ?10 at most so many.
-- Columns: n, id, tenant_id, attempts, code, sid of a key that it holds or null.
SELECT d.n, m.id, m.tenant_id, d.attempts, d.code, (SELECT q.sid FROM outbox_queue q WHERE q.n = d.n)
  FROM outbox_dead d
  JOIN outbox_message m ON m.n = d.n
  JOIN outbox_lane l ON l.n = d.lane
 WHERE d.n > ?9 AND d.discarded_at IS NULL
   AND (?1 IS NULL OR m.id IN (SELECT value FROM json_each(?1)))
   AND (?2 IS NULL OR l.namespace GLOB replace(?2, '[', '[[]'))
   AND (?3 IS NULL OR l.topic GLOB replace(?3, '[', '[[]'))
   AND (?4 IS NULL OR m.tenant_id = ?4)
   AND (?5 IS NULL OR m.key = ?5)
   AND (?6 IS NULL OR m.subject = ?6)
   AND (?7 IS NULL OR d.code = ?7)
   AND (?8 IS NULL OR m.created_at < ?8)
 ORDER BY d.n
 LIMIT ?10
