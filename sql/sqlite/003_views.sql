-- Views: the plain meaning of the tables, with the names and columns that PostgreSQL has, under the prefix outbox_.
-- Times are text in UTC, e.g. 2030-01-31T08:00:00.000000Z: they sort, and SQLite's date functions take them.

-- The state of every message, in the tables' own terms; the views below and the store read from here.
CREATE VIEW outbox_state AS
    SELECT m.n, m.id, l.namespace, l.topic, m.tenant_id, m.key, m.seq, m.dedupe_key, m.subject, m.recipient,
           m.correlation_id, m.headers, m.content_type, m.payload, m.encoding, m.priority,
           coalesce(m.max_attempts, q.max_attempts, CASE d.reason WHEN 'attempts' THEN d.spent END, d.budget, l.max_attempts) AS max_attempts,
           CASE WHEN m.max_attempts IS NOT NULL THEN 'message' WHEN coalesce(q.by_sink, d.by_sink) THEN 'sink' ELSE 'namespace' END AS max_attempts_from,
           CASE WHEN d.n IS NOT NULL THEN CASE WHEN d.discarded_at IS NULL THEN 'dead' ELSE 'discarded' END
                WHEN q.state = 1 THEN 'processing'
                WHEN q.n IS NOT NULL OR g.one IS NOT NULL THEN 'pending'
                ELSE 'delivered' END AS status,
           coalesce(d.attempts, q.attempts, a.attempt_no, 0) AS attempts,
           coalesce(d.spent, q.spent, a.spent, 0) AS spent,
           coalesce(q.deferred, 0) AS deferred,
           coalesce(d.redriven, q.redriven, 0) AS redriven,
           coalesce(q.state = 2, 0) AS parked,
           CASE WHEN q.state IN (0, 2) THEN q.due WHEN g.one IS NOT NULL THEN m.created_at END AS next_attempt_at,
           q.holder AS locked_by,
           q.until AS locked_until,
           CASE WHEN d.n IS NOT NULL THEN d.code WHEN a.outcome <> 1 THEN a.code END AS last_code,
           CASE WHEN d.n IS NOT NULL THEN d.error WHEN a.outcome <> 1 THEN a.error END AS last_error,
           CASE WHEN d.discarded_at IS NULL THEN d.reason END AS dead_reason,
           m.created_at,
           coalesce(d.discarded_at, d.died_at, q.updated_at, a.completed_at, m.created_at) AS updated_at,
           CASE WHEN a.outcome = 1 AND q.n IS NULL AND d.n IS NULL THEN a.completed_at END AS delivered_at,
           m.expires_at,
           coalesce(q.claimed_at, a.claimed_at) AS last_attempt_at,
           m.deliver_after
      FROM outbox_message m
      JOIN outbox_lane l ON l.n = m.lane
      LEFT JOIN outbox_log g ON g.one = 1 AND m.n > g.admitted AND m.bytes IS NOT NULL
      LEFT JOIN outbox_queue q ON q.n = m.n
      LEFT JOIN outbox_dead d ON d.n = m.n
      LEFT JOIN outbox_attempt a
             ON a.n = m.n AND a.attempt_no = (SELECT max(x.attempt_no) FROM outbox_attempt x WHERE x.n = m.n);

CREATE VIEW outbox_messages AS
    SELECT s.id, s.namespace, s.topic, s.tenant_id, s.key, s.seq, s.dedupe_key, s.subject, s.recipient, s.correlation_id,
           s.status, s.attempts, s.spent, s.max_attempts, s.max_attempts_from, s.deferred, s.priority,
           strftime('%Y-%m-%dT%H:%M:%S', s.next_attempt_at / 1000000, 'unixepoch')
               || printf('.%06dZ', s.next_attempt_at % 1000000) AS next_attempt_at,
           s.locked_by,
           strftime('%Y-%m-%dT%H:%M:%S', s.locked_until / 1000000, 'unixepoch')
               || printf('.%06dZ', s.locked_until % 1000000) AS locked_until,
           s.parked, s.redriven, s.last_code, s.last_error, s.dead_reason,
           strftime('%Y-%m-%dT%H:%M:%S', s.created_at / 1000000, 'unixepoch')
               || printf('.%06dZ', s.created_at % 1000000) AS created_at,
           strftime('%Y-%m-%dT%H:%M:%S', s.updated_at / 1000000, 'unixepoch')
               || printf('.%06dZ', s.updated_at % 1000000) AS updated_at,
           strftime('%Y-%m-%dT%H:%M:%S', s.delivered_at / 1000000, 'unixepoch')
               || printf('.%06dZ', s.delivered_at % 1000000) AS delivered_at,
           strftime('%Y-%m-%dT%H:%M:%S', s.expires_at / 1000000, 'unixepoch')
               || printf('.%06dZ', s.expires_at % 1000000) AS expires_at,
           s.headers, s.content_type,
           CASE WHEN coalesce(s.content_type, s.encoding) IS NULL THEN s.payload END AS payload,
           CASE WHEN coalesce(s.content_type, s.encoding) IS NOT NULL THEN s.payload END AS body,
           s.encoding
      FROM outbox_state s;

-- A claim that is not settled yet is a row with the outcome 'processing'.
CREATE VIEW outbox_attempts AS
    SELECT coalesce(m.id, x.id) || '/' || a.attempt_no AS attempt_id, coalesce(m.id, x.id) AS message_id, a.attempt_no,
           l.namespace, l.topic, coalesce(m.tenant_id, x.tenant_id) AS tenant_id, coalesce(m.key, x.key) AS key,
           coalesce(m.seq, x.seq) AS seq, coalesce(m.subject, x.subject) AS subject,
           coalesce(m.dedupe_key, x.dedupe_key) AS dedupe_key,
           coalesce(m.correlation_id, x.correlation_id) AS correlation_id,
           CASE a.outcome WHEN 0 THEN 'processing' WHEN 1 THEN 'delivered' WHEN 2 THEN 'retry' WHEN 3 THEN 'failed'
                WHEN 4 THEN 'lost' WHEN 5 THEN 'limited' WHEN 6 THEN 'blocked' WHEN 9 THEN 'interrupted'
                ELSE 'unknown' END AS outcome,
           a.worker,
           strftime('%Y-%m-%dT%H:%M:%S', a.claimed_at / 1000000, 'unixepoch')
               || printf('.%06dZ', a.claimed_at % 1000000) AS claimed_at,
           strftime('%Y-%m-%dT%H:%M:%S', a.completed_at / 1000000, 'unixepoch')
               || printf('.%06dZ', a.completed_at % 1000000) AS completed_at,
           a.latency / 1000 AS latency_ms, a.code, a.error, a.reference
      FROM (SELECT n, attempt_no, outcome, worker, claimed_at, completed_at, latency, code, error, reference
              FROM outbox_attempt
            UNION ALL
            SELECT n, attempts, 0, holder, claimed_at, NULL, NULL, NULL, NULL, NULL FROM outbox_queue WHERE state = 1) a
      LEFT JOIN outbox_message m ON m.n = a.n
      LEFT JOIN outbox_archived x ON x.n = a.n
      LEFT JOIN outbox_lane l ON l.n = coalesce(m.lane, x.lane);

CREATE VIEW outbox_dead_letters AS
    SELECT m.id, l.namespace, l.topic, m.tenant_id, m.key, m.seq, m.dedupe_key, m.subject, m.recipient, m.correlation_id,
           d.reason, d.code, d.error, d.attempts, d.spent,
           coalesce(m.max_attempts, CASE d.reason WHEN 'attempts' THEN d.spent END, d.budget) AS max_attempts, m.priority,
           EXISTS (SELECT 1 FROM outbox_queue q WHERE q.n = d.n) AS held,
           strftime('%Y-%m-%dT%H:%M:%S', m.created_at / 1000000, 'unixepoch')
               || printf('.%06dZ', m.created_at % 1000000) AS created_at,
           strftime('%Y-%m-%dT%H:%M:%S', d.died_at / 1000000, 'unixepoch')
               || printf('.%06dZ', d.died_at % 1000000) AS died_at,
           strftime('%Y-%m-%dT%H:%M:%S', m.expires_at / 1000000, 'unixepoch')
               || printf('.%06dZ', m.expires_at % 1000000) AS expires_at,
           m.headers, m.content_type,
           CASE WHEN coalesce(m.content_type, m.encoding) IS NULL THEN m.payload END AS payload,
           CASE WHEN coalesce(m.content_type, m.encoding) IS NOT NULL THEN m.payload END AS body,
           m.encoding, printf('%016x', d.fingerprint) AS fingerprint
      FROM outbox_dead d
      JOIN outbox_message m ON m.n = d.n
      JOIN outbox_lane l ON l.n = m.lane
     WHERE d.discarded_at IS NULL;

CREATE VIEW outbox_acts AS
    SELECT a.n AS id,
           strftime('%Y-%m-%dT%H:%M:%S', a.at / 1000000, 'unixepoch') || printf('.%06dZ', a.at % 1000000) AS at,
           a.actor, a.action, a.reason, a.message_id, a.tenant_id, a.detail
      FROM outbox_act a;

-- What outbox_status shows. At most 100,000 rows are read of the queue, of the log and of the dead letters, the oldest first; where there are
-- more, these stand for all, by their numbers (estimated). Columns that end in _us are microseconds.
CREATE VIEW outbox_figures AS
    WITH t(now) AS (
        SELECT CAST((julianday('now') - 2440587.5) * 86400000.0 + 0.5 AS INTEGER) * 1000 + 999
    ), queue_end(last, weight) AS (
        SELECT c.n, CASE WHEN c.n IS NULL THEN 1.0 ELSE (s.last - s.first + 1.0) / (c.n - s.first) END
          FROM (SELECT (SELECT min(n) FROM outbox_queue) AS first, (SELECT max(n) FROM outbox_queue) AS last) s
          LEFT JOIN (SELECT n FROM outbox_queue ORDER BY n LIMIT 1 OFFSET 100000) c
    ), log_end(last, weight) AS (
        SELECT g.admitted + 100000, max(1.0, (coalesce((SELECT max(n) FROM outbox_message), 0) - g.admitted) / 100000.0)
          FROM outbox_log g
    ), dead_end(last, weight) AS (
        SELECT c.n, CASE WHEN c.n IS NULL THEN 1.0 ELSE (s.last - s.first + 1.0) / (c.n - s.first) END
          FROM (SELECT (SELECT min(n) FROM outbox_dead) AS first, (SELECT max(n) FROM outbox_dead) AS last) s
          LEFT JOIN (SELECT n FROM outbox_dead ORDER BY n LIMIT 1 OFFSET 100000) c
    ), item(lane, n, state, due, since, until, attempts, weight) AS (
        SELECT q.lane, q.n, q.state, q.due, CASE WHEN q.attempts = 0 THEN q.due ELSE coalesce(m.deliver_after, m.created_at) END, q.until, q.attempts,
               e.weight
          FROM queue_end e
          CROSS JOIN outbox_queue q ON q.state <> 3 AND (e.last IS NULL OR q.n < e.last)
          LEFT JOIN outbox_message m ON q.attempts > 0 AND m.n = q.n
        UNION ALL
        SELECT m.lane, m.n, 0, m.created_at, m.created_at, NULL, 0, e.weight
          FROM outbox_log g CROSS JOIN log_end e CROSS JOIN outbox_message m ON m.n > g.admitted AND m.n <= e.last
         WHERE m.bytes IS NOT NULL
    ), figure AS (
        SELECT x.lane, sum(x.weight * (x.state IN (0, 2))) AS pending, sum(x.weight * (x.state = 0 AND x.due <= t.now)) AS due,
               sum(x.weight * (x.state = 0 AND x.due > t.now AND x.attempts = 0)) AS delayed,
               sum(x.weight * (x.state IN (0, 2) AND x.attempts > 0)) AS retrying,
               sum(x.weight * (x.state = 1)) AS processing, sum(x.weight * (x.state = 1 AND x.until <= t.now)) AS stuck,
               sum(x.weight * (x.state = 2)) AS parked,
               (t.now - min(x.due) FILTER (WHERE x.state IN (0, 2) AND x.due <= t.now)) / 1e6 AS oldest_due_s,
               (t.now - min(x.since) FILTER (WHERE x.since <= t.now)) / 1e6 AS oldest_undelivered_s, max(x.weight) > 1 AS estimated
          FROM item x CROSS JOIN t
         GROUP BY x.lane
    ), buried AS (
        SELECT d.lane, sum(e.weight) AS dead, max(e.weight) > 1 AS estimated
          FROM dead_end e CROSS JOIN outbox_dead d ON d.discarded_at IS NULL AND (e.last IS NULL OR d.n < e.last)
         GROUP BY d.lane
    ), failure(lane, code, error, at) AS ( -- SQLite takes the bare columns from the row of the maximum
        SELECT f.lane, f.code, f.error, max(f.at)
          FROM (SELECT q.lane, a.code, a.error, max(a.completed_at) AS at
                  FROM queue_end e
                  CROSS JOIN outbox_queue q ON q.attempts > 0 AND q.state <> 3 AND (e.last IS NULL OR q.n < e.last)
                  JOIN outbox_attempt a ON a.n = q.n AND a.attempt_no = q.attempts - (q.state = 1) AND a.outcome <> 1
                 GROUP BY q.lane
                UNION ALL
                SELECT d.lane, d.code, d.error, max(d.died_at)
                  FROM dead_end e CROSS JOIN outbox_dead d ON d.discarded_at IS NULL AND (e.last IS NULL OR d.n < e.last)
                 GROUP BY d.lane) f
         GROUP BY f.lane
    )
    SELECT l.namespace, l.topic, CAST(round(coalesce(q.pending, 0)) AS INTEGER) AS pending, CAST(round(coalesce(q.due, 0)) AS INTEGER) AS due,
           CAST(round(coalesce(q.delayed, 0)) AS INTEGER) AS delayed, CAST(round(coalesce(q.processing, 0)) AS INTEGER) AS processing,
           CAST(round(coalesce(q.stuck, 0)) AS INTEGER) AS stuck, CAST(round(coalesce(q.parked, 0)) AS INTEGER) AS parked,
           CAST(round(coalesce(d.dead, 0)) AS INTEGER) AS dead, coalesce(q.oldest_due_s, 0.0) AS oldest_due_s,
           EXISTS (SELECT 1 FROM outbox_pause p
                    WHERE p.sink = '' AND (p.namespace = '' OR l.namespace GLOB replace(p.namespace, '[', '[[]'))
                      AND (p.topic = '' OR l.topic GLOB replace(p.topic, '[', '[[]'))) AS paused,
           CAST(round(coalesce(q.retrying, 0)) AS INTEGER) AS retrying, coalesce(q.oldest_undelivered_s, 0.0) AS oldest_undelivered_s,
           f.code AS last_code, f.error AS last_error, f.at AS last_error_us, coalesce(q.estimated, 0) OR coalesce(d.estimated, 0) AS estimated,
           (SELECT count(*) FROM (SELECT 1 FROM outbox_dead x WHERE x.discarded_at IS NULL AND x.lane = l.n
                                     AND x.died_at > (SELECT now FROM t) - 3600000000 LIMIT 10000)) AS dead_last_hour
      FROM outbox_lane l
      LEFT JOIN figure q ON q.lane = l.n
      LEFT JOIN buried d ON d.lane = l.n
      LEFT JOIN failure f ON f.lane = l.n;

CREATE VIEW outbox_status AS
    SELECT namespace, topic, pending, due, delayed, processing, stuck, parked, dead, oldest_due_s, paused, retrying, oldest_undelivered_s,
           last_code, last_error,
           strftime('%Y-%m-%dT%H:%M:%S', last_error_us / 1000000, 'unixepoch') || printf('.%06dZ', last_error_us % 1000000) AS last_error_at,
           estimated, dead_last_hour
      FROM outbox_figures;

-- The producer's view: INSERT INTO outbox (topic, payload, ...); see 004_enqueue.sql. Read, it shows the messages in
-- the words of a well-known shape of outbox table: pending, publishing, published, failed, dead_lettered.
CREATE VIEW outbox AS
    SELECT s.topic, s.payload, s.key, s.dedupe_key, s.tenant_id, s.namespace, s.subject, s.recipient, s.headers,
           s.priority,
           strftime('%Y-%m-%dT%H:%M:%S', s.deliver_after / 1000000, 'unixepoch')
               || printf('.%06dZ', s.deliver_after % 1000000) AS deliver_after,
           strftime('%Y-%m-%dT%H:%M:%S', s.expires_at / 1000000, 'unixepoch')
               || printf('.%06dZ', s.expires_at % 1000000) AS expires_at,
           s.max_attempts, s.correlation_id, s.content_type, s.encoding,
           s.id, s.seq, s.payload AS payload_json, s.dedupe_key AS idempotency_key,
           CASE s.status WHEN 'processing' THEN 'publishing' WHEN 'delivered' THEN 'published'
                WHEN 'dead' THEN 'dead_lettered'
                WHEN 'pending' THEN CASE WHEN s.attempts > 0 THEN 'failed' ELSE 'pending' END
                ELSE s.status END AS status,
           max(s.attempts - 1, 0) + (s.status = 'pending' AND s.attempts > 0) AS retry_count,
           s.last_error,
           strftime('%Y-%m-%dT%H:%M:%S', s.last_attempt_at / 1000000, 'unixepoch')
               || printf('.%06dZ', s.last_attempt_at % 1000000) AS last_attempt_at,
           strftime('%Y-%m-%dT%H:%M:%S', s.next_attempt_at / 1000000, 'unixepoch')
               || printf('.%06dZ', s.next_attempt_at % 1000000) AS next_attempt_at,
           strftime('%Y-%m-%dT%H:%M:%S', s.delivered_at / 1000000, 'unixepoch')
               || printf('.%06dZ', s.delivered_at % 1000000) AS published_at,
           strftime('%Y-%m-%dT%H:%M:%S', s.created_at / 1000000, 'unixepoch')
               || printf('.%06dZ', s.created_at % 1000000) AS created_at
      FROM outbox_state s;
