-- lanes: those a claim may take from: within its scope, and not paused.
-- ?1 namespace or null, ?2 topics as a JSON array or null, ?3 the only lanes and ?4 those to leave out, as JSON arrays of
-- [namespace, topic] or null; ?5 rules, as a JSON array of [namespace, topic, skip] or null: globs, and the first that matches
-- a lane says whether to leave it out. ?6 at most so many.
-- Columns: n, retry_base, retry_cap.
SELECT l.n, l.retry_base, l.retry_cap
  FROM outbox_lane l
 WHERE (?1 IS NULL OR l.namespace = ?1)
   AND (?2 IS NULL OR l.topic IN (SELECT value FROM json_each(?2)))
   AND (?3 IS NULL OR (l.namespace, l.topic) IN (SELECT json_extract(value, '$[0]'), json_extract(value, '$[1]')
                                                   FROM json_each(?3)))
   AND (?4 IS NULL OR (l.namespace, l.topic) NOT IN (SELECT json_extract(value, '$[0]'), json_extract(value, '$[1]')
                                                       FROM json_each(?4)))
   AND (?5 IS NULL OR coalesce((SELECT json_extract(r.value, '$[2]') FROM json_each(?5) r
                                 WHERE l.namespace GLOB json_extract(r.value, '$[0]')
                                   AND l.topic GLOB json_extract(r.value, '$[1]') ORDER BY r.key LIMIT 1), 0) = 0)
   AND NOT EXISTS (SELECT 1 FROM outbox_pause p
                    WHERE p.sink = '' AND (p.namespace = '' OR l.namespace GLOB replace(p.namespace, '[', '[[]'))
                      AND (p.topic = '' OR l.topic GLOB replace(p.topic, '[', '[[]')))
 ORDER BY l.n
 LIMIT ?6
