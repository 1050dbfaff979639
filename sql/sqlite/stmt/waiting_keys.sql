-- waiting_keys: keys that wait behind their first message, the fullest first, among the first 200,000 rows of the queue that have a key.
-- ?1 how many keys at most, ?2 now.
-- Columns: namespace, topic, key, tenant, id and status of the first message, how many wait, since when the oldest of those, why.
WITH counted(sid, waiting) AS MATERIALIZED (
    SELECT q.sid, count(*) - 1
      FROM (SELECT sid FROM outbox_queue WHERE sid IS NOT NULL ORDER BY sid LIMIT 200000) q
     GROUP BY q.sid HAVING count(*) > 1
     ORDER BY 2 DESC, 1 LIMIT ?1
)
SELECT s.namespace, s.topic, s.key, s.tenant_id, s.id, s.status, c.waiting,
       (SELECT m.created_at FROM outbox_message m
         WHERE m.n = (SELECT q.n FROM outbox_queue q WHERE q.sid = c.sid ORDER BY q.seq LIMIT 1 OFFSET 1)),
       CASE WHEN s.status = 'dead' THEN 'dead' || coalesce(': ' || s.last_code, '') || coalesce(': ' || s.last_error, '')
            WHEN s.status = 'processing' THEN 'attempt ' || s.attempts || ' is under way'
            WHEN s.next_attempt_at > ?2 AND s.attempts > 0
                THEN 'attempt ' || s.attempts || ' failed' || coalesce(': ' || s.last_code, '') || coalesce(': ' || s.last_error, '')
            WHEN s.next_attempt_at > ?2 THEN 'it is delayed'
            ELSE 'it is due' END
  FROM counted c
  JOIN outbox_state s ON s.n = (SELECT q.n FROM outbox_queue q WHERE q.sid = c.sid ORDER BY q.seq LIMIT 1)
 ORDER BY c.waiting DESC, 8, s.id
