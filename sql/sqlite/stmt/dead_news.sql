-- dead_news: dead letters since a time, by group. ?1 since, ?2 minimum, ?3 namespaces, ?4 topics, ?5 until.
-- Columns: fingerprint, code, sample, count, topics (JSON), id of the sample, total.
WITH news AS MATERIALIZED (
    SELECT d.n, d.fingerprint, d.code, d.error, d.died_at, l.topic
      FROM outbox_dead d JOIN outbox_lane l ON l.n = d.lane
     WHERE d.died_at > ?1 AND d.died_at <= ?5 AND d.discarded_at IS NULL AND l.namespace <> 'outbox'
       AND (?3 IS NULL OR l.namespace GLOB replace(?3, '[', '[[]'))
       AND (?4 IS NULL OR l.topic GLOB replace(?4, '[', '[[]'))
     ORDER BY d.died_at LIMIT 10000
), grouped AS ( -- SQLite takes the bare columns from the row of the maximum
    SELECT w.fingerprint, w.code, w.error, count(*) AS count, w.n, max(w.died_at) FROM news w GROUP BY w.fingerprint
)
SELECT printf('%016x', g.fingerprint), g.code, substr(g.error, 1, 300), g.count,
       (SELECT json_group_array(t.topic) FROM (SELECT DISTINCT w.topic FROM news w WHERE w.fingerprint IS g.fingerprint ORDER BY 1 LIMIT 5) t),
       (SELECT m.id FROM outbox_message m WHERE m.n = g.n), (SELECT count(*) FROM news)
  FROM grouped g
 WHERE (SELECT count(*) FROM news) >= ?2
 ORDER BY g.count DESC LIMIT 10
