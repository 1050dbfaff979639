-- Groups of failures: dead letters and messages that wait after a failure, by fingerprint; see sql/postgres/014_groups.sql for why
-- there is no table of them. src/core/fingerprint.c computes the fingerprints.

-- The groups that have most messages now, at most 100. Looked for among the newest 5,000 failures of each table, and the first 200
-- fingerprints by number. Each is counted up to 10,000 (estimated: there are more). Columns that end in _us are microseconds.
CREATE VIEW outbox_group_figures AS
    WITH RECURSIVE dead_step(f, i) AS (
        SELECT (SELECT min(d.fingerprint) FROM outbox_dead d WHERE d.discarded_at IS NULL), 1
        UNION ALL
        SELECT (SELECT d.fingerprint FROM outbox_dead d WHERE d.discarded_at IS NULL AND d.fingerprint > s.f ORDER BY d.fingerprint LIMIT 1), s.i + 1
          FROM dead_step s WHERE s.f IS NOT NULL AND s.i < 200
    ), queue_step(f, i) AS (
        SELECT (SELECT min(q.fingerprint) FROM outbox_queue q WHERE q.fingerprint IS NOT NULL), 1
        UNION ALL
        SELECT (SELECT q.fingerprint FROM outbox_queue q WHERE q.fingerprint > s.f ORDER BY q.fingerprint LIMIT 1), s.i + 1
          FROM queue_step s WHERE s.f IS NOT NULL AND s.i < 200
    ), newest(f) AS (
        SELECT * FROM (SELECT d.fingerprint FROM outbox_dead d WHERE d.discarded_at IS NULL ORDER BY d.n DESC LIMIT 5000)
        UNION ALL
        SELECT * FROM (SELECT q.fingerprint FROM outbox_queue q ORDER BY q.n DESC LIMIT 5000)
    ), candidate(f) AS (
        SELECT f FROM (SELECT f FROM newest WHERE f IS NOT NULL GROUP BY f ORDER BY count(*) DESC LIMIT 200)
        UNION SELECT f FROM dead_step WHERE f IS NOT NULL
        UNION SELECT f FROM queue_step WHERE f IS NOT NULL
    ), counted AS MATERIALIZED (
        SELECT c.f,
               (SELECT count(*) FROM (SELECT 1 FROM outbox_dead d WHERE d.discarded_at IS NULL AND d.fingerprint = c.f LIMIT 10000)) AS dead,
               (SELECT count(*) FROM (SELECT 1 FROM outbox_queue q WHERE q.fingerprint = c.f AND q.state <> 3 LIMIT 10000)) AS retrying
          FROM candidate c
    ), top AS MATERIALIZED (
        SELECT c.f, c.dead, c.retrying, c.dead + c.retrying AS count FROM counted c WHERE c.dead + c.retrying > 0 ORDER BY 4 DESC, c.f LIMIT 100
    ), used(f, lane) AS MATERIALIZED (
        SELECT t.f, d.lane FROM top t CROSS JOIN outbox_dead d
            ON d.n IN (SELECT x.n FROM outbox_dead x WHERE x.discarded_at IS NULL AND x.fingerprint = t.f ORDER BY x.n DESC LIMIT 100)
        UNION
        SELECT t.f, q.lane FROM top t CROSS JOIN outbox_queue q
            ON q.n IN (SELECT x.n FROM outbox_queue x WHERE x.fingerprint = t.f AND x.state <> 3 ORDER BY x.n DESC LIMIT 100)
    )
    SELECT printf('%016x', t.f) AS fingerprint, s.last_code AS code, substr(s.last_error, 1, 1000) AS sample, t.count, t.dead, t.retrying,
           max(t.dead, t.retrying) >= 10000 AS estimated,
           coalesce((SELECT min(x.at) FROM (SELECT d.died_at AS at FROM outbox_dead d WHERE d.discarded_at IS NULL AND d.fingerprint = t.f
                                             ORDER BY d.n LIMIT 10000) x), s.updated_at) AS dead_first_us,
           (SELECT min(x.at) FROM (SELECT q.updated_at AS at FROM outbox_queue q WHERE q.fingerprint = t.f AND q.state <> 3 LIMIT 10000) x)
               AS queue_first_us,
           (SELECT max(x.at) FROM (SELECT d.died_at AS at FROM outbox_dead d WHERE d.discarded_at IS NULL AND d.fingerprint = t.f
                                    ORDER BY d.n DESC LIMIT 10000) x) AS dead_last_us,
           (SELECT max(x.at) FROM (SELECT q.updated_at AS at FROM outbox_queue q WHERE q.fingerprint = t.f AND q.state <> 3
                                    ORDER BY q.n DESC LIMIT 10000) x) AS queue_last_us,
           (SELECT json_group_array(x.name) FROM (
                SELECT CASE l.namespace WHEN 'default' THEN l.topic ELSE l.namespace || '/' || l.topic END AS name
                  FROM used u JOIN outbox_lane l ON l.n = u.lane WHERE u.f = t.f ORDER BY 1 LIMIT 20) x) AS topics,
           (SELECT json_group_array(x.name) FROM (
                SELECT DISTINCT json_extract(r.value, '$.sink') AS name
                  FROM used u JOIN outbox_lane l ON l.n = u.lane CROSS JOIN outbox_relay k CROSS JOIN json_each(k.info, '$.routes') r
                 WHERE u.f = t.f AND k.seen_at > CAST((julianday('now') - 2440587.5) * 86400000000.0 AS INTEGER) - 3 * k.every
                   AND l.namespace GLOB replace(json_extract(r.value, '$.namespace'), '[', '[[]')
                   AND l.topic GLOB replace(json_extract(r.value, '$.topic'), '[', '[[]')
                   AND NOT EXISTS (SELECT 1 FROM json_each(k.info, '$.routes') o
                                    WHERE o.key < r.key AND json_type(o.value, '$.headers') IS NULL
                                      AND l.namespace GLOB replace(json_extract(o.value, '$.namespace'), '[', '[[]')
                                      AND l.topic GLOB replace(json_extract(o.value, '$.topic'), '[', '[[]'))
                 ORDER BY 1) x) AS sinks,
           s.id AS message_id
      FROM top t
      CROSS JOIN outbox_state s ON s.n = coalesce(
            (SELECT d.n FROM outbox_dead d WHERE d.discarded_at IS NULL AND d.fingerprint = t.f ORDER BY d.n DESC LIMIT 1),
            (SELECT q.n FROM outbox_queue q WHERE q.fingerprint = t.f AND q.state <> 3 ORDER BY q.n DESC LIMIT 1))
     ORDER BY t.count DESC, fingerprint;

CREATE VIEW outbox_error_groups AS
    SELECT g.fingerprint, g.code, g.sample, g.count, g.dead, g.retrying, g.estimated,
           strftime('%Y-%m-%dT%H:%M:%S', min(g.dead_first_us, coalesce(g.queue_first_us, g.dead_first_us)) / 1000000, 'unixepoch')
               || printf('.%06dZ', min(g.dead_first_us, coalesce(g.queue_first_us, g.dead_first_us)) % 1000000) AS first_seen,
           strftime('%Y-%m-%dT%H:%M:%S', max(coalesce(g.dead_last_us, 0), coalesce(g.queue_last_us, 0)) / 1000000, 'unixepoch')
               || printf('.%06dZ', max(coalesce(g.dead_last_us, 0), coalesce(g.queue_last_us, 0)) % 1000000) AS last_seen,
           g.topics, g.sinks, g.message_id
      FROM outbox_group_figures g;

-- The last hour, for charts: what the relay did since its last row, and how the outbox stood. Times are microseconds.
CREATE TABLE outbox_series (
    n         INTEGER PRIMARY KEY,
    at        INTEGER NOT NULL,
    worker    TEXT NOT NULL,
    delivered INTEGER NOT NULL,
    failed    INTEGER NOT NULL,
    dead      INTEGER NOT NULL,
    latencies TEXT NOT NULL, -- counts, by the bounds of src/core/history.c
    pending   INTEGER,       -- from here: of the leader
    open      INTEGER,       -- neither delivered nor dead
    oldest_ms INTEGER,
    estimated INTEGER
) STRICT;
CREATE INDEX outbox_series_at ON outbox_series (at);

-- What operators were told of dead letters: one row.
CREATE TABLE outbox_notice (
    one        INTEGER PRIMARY KEY,
    at         INTEGER NOT NULL,
    upto       INTEGER NOT NULL, -- what died until then they know
    message_id TEXT              -- the last one
) STRICT;
INSERT INTO outbox_notice VALUES (1, CAST((julianday('now') - 2440587.5) * 86400000000.0 AS INTEGER), 0, NULL);
