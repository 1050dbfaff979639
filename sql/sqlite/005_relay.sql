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

CREATE VIEW outbox_tunings AS
    SELECT name, value,
           strftime('%Y-%m-%dT%H:%M:%S', at / 1000000, 'unixepoch') || printf('.%06dZ', at % 1000000) AS at,
           actor, reason
      FROM outbox_tuning;
