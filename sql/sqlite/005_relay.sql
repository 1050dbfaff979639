-- The relay: its heartbeat, and settings changed while it runs.

CREATE TABLE outbox_relay (
    worker     TEXT PRIMARY KEY,
    host       TEXT,
    pid        INTEGER,
    version    TEXT,
    state      TEXT NOT NULL,
    started_at INTEGER NOT NULL,
    seen_at    INTEGER NOT NULL,
    every      INTEGER NOT NULL, -- between two beats
    info       TEXT              -- JSON
) STRICT, WITHOUT ROWID;

-- These override the configuration file.
CREATE TABLE outbox_tuning (
    name   TEXT PRIMARY KEY,
    value  TEXT NOT NULL,
    at     INTEGER NOT NULL,
    actor  TEXT NOT NULL,
    reason TEXT
) STRICT, WITHOUT ROWID;

-- How many attempts were lost with their worker so far: one row.
CREATE TABLE outbox_repair (
    one   INTEGER PRIMARY KEY,
    total INTEGER NOT NULL
) STRICT;
INSERT INTO outbox_repair VALUES (1, 0);

CREATE VIEW outbox_relays AS
    SELECT worker, host, pid, version, state,
           strftime('%Y-%m-%dT%H:%M:%S', started_at / 1000000, 'unixepoch') || printf('.%06dZ', started_at % 1000000)
               AS started_at,
           strftime('%Y-%m-%dT%H:%M:%S', seen_at / 1000000, 'unixepoch') || printf('.%06dZ', seen_at % 1000000) AS seen_at,
           seen_at > CAST((julianday('now') - 2440587.5) * 86400000000.0 AS INTEGER) - 3 * every AS alive,
           info
      FROM outbox_relay;

-- The sinks of the relay, as it sees them.
CREATE VIEW outbox_sinks AS
    SELECT r.worker AS relay, json_extract(s.value, '$.name') AS name, json_extract(s.value, '$.kind') AS kind, json_extract(s.value, '$.breaker') AS breaker, json_extract(s.value, '$.cause') AS cause,
           json_extract(s.value, '$.since') AS since, json_extract(s.value, '$.next_probe') AS next_probe, json_extract(s.value, '$.code') AS code, json_extract(s.value, '$.error') AS error,
           json_extract(s.value, '$.error_at') AS error_at, json_extract(s.value, '$.success_at') AS success_at, json_extract(s.value, '$.failed') AS failed,
           json_extract(s.value, '$.in_flight') AS in_flight, json_extract(s.value, '$.rate') AS rate, json_extract(s.value, '$.concurrency') AS concurrency,
           json_extract(s.value, '$.rate_limit') AS rate_limit, json_extract(s.value, '$.limited_until') AS limited_until, json_extract(s.value, '$.paused') AS paused
      FROM outbox_relay r
      JOIN json_each(r.info, '$.sinks') s
     WHERE r.seen_at > CAST((julianday('now') - 2440587.5) * 86400000000.0 AS INTEGER) - 3 * r.every;

CREATE VIEW outbox_pauses AS
    SELECT nullif(namespace, '') AS namespace, nullif(topic, '') AS topic, nullif(sink, '') AS sink,
           strftime('%Y-%m-%dT%H:%M:%S', at / 1000000, 'unixepoch') || printf('.%06dZ', at % 1000000) AS at, actor, reason
      FROM outbox_pause;

CREATE VIEW outbox_tunings AS
    SELECT name, value,
           strftime('%Y-%m-%dT%H:%M:%S', at / 1000000, 'unixepoch') || printf('.%06dZ', at % 1000000) AS at,
           actor, reason
      FROM outbox_tuning;
