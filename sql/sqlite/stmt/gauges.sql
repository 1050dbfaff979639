-- gauges: the figures of the queue, at a price that does not grow with it: the total, then the fullest namespaces.
-- The numbers ?2 to ?3 are cut into ?4 stretches of ?6, of each a window of ?5 is looked at, anywhere in it, and what is
-- found counts ?6 / ?5 times: one window over it all is exact. Of the log, the first ?7 stand for all ?9. What is out is counted by its index. Since when the oldest
-- is due takes two descents of an index per lane and priority.
-- ?1 now, ?7 what is out, and dead letters, are counted up to this, ?8 at most so many namespaces.
-- Columns: namespace (null: the total), pending, due, processing, stuck, parked, blocked_keys, dead, oldest due.
WITH RECURSIVE stretch(i) AS (
    SELECT 0
    UNION ALL
    SELECT i + 1 FROM stretch WHERE i + 1 < ?4
), probe(low) AS MATERIALIZED (
    SELECT ?2 + i * ?6 + abs(random()) % (?6 - ?5 + 1) FROM stretch
), prio(p) AS (
    SELECT 0
    UNION ALL
    SELECT p + 1 FROM prio WHERE p < 9
), part(lane, pending, due, processing, stuck, parked, blocked, dead, oldest) AS (
    SELECT q.lane,
           sum(q.state IN (0, 2)) * ?6 / ?5,
           sum(q.state = 0 AND q.due <= ?1) * ?6 / ?5,
           0, 0,
           sum(q.state = 2) * ?6 / ?5,
           sum(q.state = 3 OR (q.state = 0 AND q.sid IS NOT NULL AND q.attempts > 0 AND q.due > ?1)) * ?6 / ?5,
           0, NULL
      FROM probe w
     CROSS JOIN outbox_queue q
     WHERE q.n BETWEEN w.low AND min(w.low + ?5 - 1, ?3)
     GROUP BY q.lane
    UNION ALL
    SELECT m.lane, count(*) * max(?9, ?7) / ?7, count(*) * max(?9, ?7) / ?7, 0, 0, 0, 0, 0, min(m.created_at)
      FROM (SELECT x.lane, x.created_at FROM outbox_log g CROSS JOIN outbox_message x ON x.n > g.admitted
             WHERE x.bytes IS NOT NULL LIMIT ?7) m
     GROUP BY m.lane
    UNION ALL
    SELECT q.lane, 0, 0, count(*), sum(q.until <= ?1), 0, 0, 0, NULL
      FROM (SELECT lane, until FROM outbox_queue WHERE state = 1 LIMIT ?7) q
     GROUP BY q.lane
    UNION ALL
    SELECT d.lane, 0, 0, 0, 0, 0, 0, count(*), NULL
      FROM (SELECT lane FROM outbox_dead WHERE discarded_at IS NULL LIMIT ?7) d
     GROUP BY d.lane
    UNION ALL
    SELECT l.n, 0, 0, 0, 0, 0, 0, 0, (SELECT q.due FROM outbox_queue q
                                       WHERE q.state = 0 AND q.lane = l.n AND q.prio = p.p AND q.due <= ?1
                                       ORDER BY q.due LIMIT 1)
      FROM outbox_lane l CROSS JOIN prio p
    UNION ALL
    SELECT l.n, 0, 0, 0, 0, 0, 0, 0, (SELECT min(q.due) FROM outbox_queue q
                                       WHERE q.state = 1 AND q.lane = l.n AND q.until <= ?1)
      FROM outbox_lane l
), figure(namespace, pending, due, processing, stuck, parked, blocked, dead, oldest) AS MATERIALIZED (
    SELECT l.namespace, sum(p.pending), sum(p.due), sum(p.processing), sum(p.stuck), sum(p.parked), sum(p.blocked),
           sum(p.dead), min(p.oldest)
      FROM part p
      JOIN outbox_lane l ON l.n = p.lane
     GROUP BY l.namespace
)
SELECT NULL, coalesce(sum(pending), 0), coalesce(sum(due), 0), coalesce(sum(processing), 0), coalesce(sum(stuck), 0),
       coalesce(sum(parked), 0), coalesce(sum(blocked), 0), coalesce(sum(dead), 0), min(oldest)
  FROM figure
UNION ALL
SELECT *
  FROM (SELECT namespace, pending, due, processing, stuck, parked, blocked, dead, oldest
          FROM figure
         WHERE pending + processing + blocked + dead > 0 OR oldest IS NOT NULL
         ORDER BY pending DESC, dead DESC, namespace LIMIT ?8)
