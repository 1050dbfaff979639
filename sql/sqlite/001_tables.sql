-- Tables.
--
--   outbox_message   immutable; written once by the enqueue, never updated
--   outbox_log       how far the messages have been admitted to the queue
--   outbox_queue     hot and narrow; one row per message that was admitted and is neither delivered nor dead (and one per
--                    dead letter that holds its key)
--   outbox_attempt   append-only; one row per finished attempt
--   outbox_dead      dead letters, and what operators discarded
--   outbox_dedupe    dedupe keys, kept forever; outbox_stream: the last seq of every key
--   outbox_lane      the (namespace, topic) pairs seen; its number leads the queue's index
--
-- SQLite has no schemas and the file may be the application's own, hence the prefix. application_id, user_version and
-- journal settings of the file belong to the application: nothing here changes them.
--
-- Times are integers, microseconds since 1970 UTC; the views show them as text. Flags are 0 and 1. uuids are text in
-- lower case.
--
-- Invariants
--   1. n counts the messages in the order of their commits (SQLite has one writer) and is never reused: SQLite assigns
--      the highest plus one, so deleting the highest leaves a stub above it (stmt/stub.sql).
--   2. The first row of a key is never parked: removing the row before it wakes it in the same transaction. The rows
--      behind the first are parked, or leased to the worker that has the first, or (at most one per key, behind rows
--      leased with prefetch) ready for that same worker. So a claim does not read rows that it may not take, however
--      many are blocked.
--   3. An attempt is written while its lease is in the queue, by the transaction that ends that lease.
--   4. No decision depends on a constraint. A producer's INSERT OR REPLACE would turn a conflict into the loss of a row,
--      and OR IGNORE would hide it, so every statement tests first; the constraints only guard against our own mistakes.

CREATE TABLE outbox_migration (
    version    INTEGER PRIMARY KEY,
    name       TEXT NOT NULL,
    sha256     TEXT NOT NULL,
    applied_at INTEGER NOT NULL
) STRICT;

-- Settings. The row '*' has every value; a namespace's own row overrides what it names.
CREATE TABLE outbox_namespace (
    name              TEXT PRIMARY KEY,
    dedupe_scope      TEXT CHECK (dedupe_scope IN ('topic', 'namespace')),
    order_scope       TEXT CHECK (order_scope IN ('topic', 'namespace')),
    tenant_prefix     INTEGER CHECK (tenant_prefix IN (0, 1)),
    on_dead           TEXT CHECK (on_dead IN ('continue', 'hold')),
    max_payload       INTEGER CHECK (max_payload BETWEEN @max_payload_min@ AND @max_payload_max@), -- bytes
    max_attempts      INTEGER CHECK (max_attempts BETWEEN @max_attempts_min@ AND @max_attempts_max@),
    retry_base        INTEGER CHECK (retry_base BETWEEN @retry_base_min@ AND @retry_base_max@),
    retry_cap         INTEGER CHECK (retry_cap BETWEEN @retry_cap_min@ AND @retry_cap_max@),
    retention         INTEGER CHECK (retention IS NULL OR (retention >= -1 AND name = '*')), -- -1: forever
    attempt_retention INTEGER CHECK (attempt_retention IS NULL OR (attempt_retention >= -1 AND name = '*')), -- null: as retention
    CHECK (name <> '*' OR (dedupe_scope IS NOT NULL AND order_scope IS NOT NULL AND tenant_prefix IS NOT NULL
        AND on_dead IS NOT NULL AND max_payload IS NOT NULL AND max_attempts IS NOT NULL AND retry_base IS NOT NULL
        AND retry_cap IS NOT NULL AND retention IS NOT NULL))
) STRICT, WITHOUT ROWID;
INSERT INTO outbox_namespace
VALUES ('*', 'topic', 'topic', 1, 'continue', 1048576, 15, 1000000, 1800000000, 604800000000, NULL);

-- Each lane repeats the settings in force, so that an enqueue reads one row; 002_guards.sql keeps them current.
CREATE TABLE outbox_lane (
    n             INTEGER NOT NULL UNIQUE,
    namespace     TEXT NOT NULL,
    topic         TEXT NOT NULL,
    dedupe_topic  TEXT NOT NULL,    -- '' where the dedupe_scope is the namespace
    order_topic   TEXT NOT NULL,    -- '' where the order_scope is the namespace
    tenant_prefix INTEGER NOT NULL,
    hold          INTEGER NOT NULL, -- on_dead
    max_payload   INTEGER NOT NULL,
    max_attempts  INTEGER NOT NULL,
    retry_base    INTEGER NOT NULL,
    retry_cap     INTEGER NOT NULL,
    PRIMARY KEY (namespace, topic)
) STRICT, WITHOUT ROWID;

CREATE TABLE outbox_message (
    n              INTEGER PRIMARY KEY,
    id             TEXT NOT NULL UNIQUE, -- uuid v7
    lane           INTEGER REFERENCES outbox_lane (n), -- null: no message, but a number that must not be given out again
    created_at     INTEGER NOT NULL,
    priority       INTEGER NOT NULL,
    max_attempts   INTEGER, -- null: its producer did not say
    deliver_after  INTEGER,
    expires_at     INTEGER,
    tenant_id      TEXT,
    key            TEXT,
    seq            INTEGER,
    dedupe_key     TEXT,
    subject        TEXT,
    recipient      TEXT,
    correlation_id TEXT,
    headers        TEXT, -- a JSON object of strings
    content_type   TEXT, -- null: the payload is JSON
    bytes          INTEGER, -- of the payload, where it went into the log: outbox_log
    payload        ANY NOT NULL, -- JSON text, or a blob when there is a content type or an encoding
    encoding       TEXT -- 'zstd': compressed by its producer
) STRICT;
CREATE INDEX outbox_message_tenant ON outbox_message (tenant_id) WHERE tenant_id IS NOT NULL;
CREATE INDEX outbox_message_subject ON outbox_message (subject) WHERE subject IS NOT NULL;

--   READY ──claim──▶ LEASED ──settle──▶ gone, or READY again, or PARKED (a predecessor is still there), or HELD
--   PARKED ──the row before it leaves──▶ READY
--   HELD (dead, and its key waits) ──retry──▶ READY   ──discard──▶ gone
CREATE TABLE outbox_queue (
    n            INTEGER PRIMARY KEY REFERENCES outbox_message,
    state        INTEGER NOT NULL,           -- 0 ready, 1 leased, 2 parked, 3 held
    lane         INTEGER NOT NULL,
    prio         INTEGER NOT NULL,
    due          INTEGER NOT NULL,           -- not before; stays as it is while leased
    sid          INTEGER,                    -- the key's stream; null: no order to keep
    seq          INTEGER,
    tenant_id    TEXT,
    expires_at   INTEGER,
    bytes        INTEGER NOT NULL DEFAULT 0, -- of the payload, as it is delivered
    max_attempts INTEGER NOT NULL,           -- the message's own, or a sink's, or the namespace's
    by_sink      INTEGER NOT NULL DEFAULT 0, -- max_attempts is what a route or sink said
    attempts     INTEGER NOT NULL DEFAULT 0, -- number of the last attempt begun: never falls
    spent        INTEGER NOT NULL DEFAULT 0, -- of the budget max_attempts
    deferred     INTEGER NOT NULL DEFAULT 0, -- how many times in a row it was limited, blocked or silent
    lost         INTEGER NOT NULL DEFAULT 0, -- of those: attempts whose worker was not heard of again
    redriven     INTEGER NOT NULL DEFAULT 0,
    updated_at   INTEGER NOT NULL,
    until        INTEGER,                    -- lease end; the rest describes the claim that holds it
    claimed_at   INTEGER,
    ceiling      INTEGER,                    -- the budget under that claim
    retry_base   INTEGER,
    retry_cap    INTEGER,
    prefetch     INTEGER NOT NULL DEFAULT 0, -- its holder may take what follows in its key
    holder       TEXT,
    fingerprint  INTEGER                     -- of its last failure: see 006_groups.sql; null: it has not failed
) STRICT;
CREATE INDEX outbox_queue_ready ON outbox_queue (lane, prio, due) WHERE state = 0;
-- For claims where there are many lanes: see due_scan.c. Empty where there are not: OB_SQLITE_LANES_FEW.
CREATE INDEX outbox_queue_next ON outbox_queue (prio, due) WHERE state = 0 AND lane > 32;
CREATE INDEX outbox_queue_tenant ON outbox_queue (tenant_id, lane, prio, due) WHERE state = 0 AND tenant_id IS NOT NULL;
CREATE INDEX outbox_queue_lease ON outbox_queue (until) WHERE state = 1;
CREATE INDEX outbox_queue_group ON outbox_queue (fingerprint) WHERE fingerprint IS NOT NULL;
CREATE UNIQUE INDEX outbox_queue_key ON outbox_queue (sid, seq) WHERE sid IS NOT NULL;

-- An ordinary message (no key, no delay, no expiry, priority 4, not compressed) is only written to outbox_message: it is in
-- the log. The next claim admits it to the queue, in bulk: outbox_admit. What has bytes and a number over this one waits.
CREATE TABLE outbox_log (
    one      INTEGER PRIMARY KEY,
    admitted INTEGER NOT NULL -- the log is in the queue up to this number
) STRICT;
INSERT INTO outbox_log VALUES (1, 0);
CREATE TRIGGER outbox_admit AFTER UPDATE OF admitted ON outbox_log
BEGIN
    INSERT INTO outbox_queue (n, state, lane, prio, due, tenant_id, bytes, max_attempts, updated_at)
    SELECT m.n, 0, m.lane, m.priority, m.created_at, m.tenant_id, m.bytes,
           coalesce(m.max_attempts, (SELECT l.max_attempts FROM outbox_lane l WHERE l.n = m.lane)), m.created_at
      FROM outbox_message m
     WHERE m.n > OLD.admitted AND m.n <= NEW.admitted AND m.bytes IS NOT NULL
     ORDER BY m.n;
END;

CREATE TABLE outbox_attempt (
    n            INTEGER NOT NULL, -- the message; no foreign key: attempts may be kept longer
    attempt_no   INTEGER NOT NULL,
    outcome      INTEGER NOT NULL, -- enum outbox_outcome: 1 delivered ... 9 interrupted
    spent        INTEGER NOT NULL, -- of the budget, after this attempt
    claimed_at   INTEGER NOT NULL,
    completed_at INTEGER NOT NULL,
    latency      INTEGER,          -- as the worker measured it
    worker       TEXT NOT NULL,
    code         TEXT,
    error        TEXT,
    reference    TEXT,
    PRIMARY KEY (n, attempt_no)
) STRICT, WITHOUT ROWID;

-- What remains of a message when attempts are kept longer than messages.
CREATE TABLE outbox_archived (
    n              INTEGER PRIMARY KEY,
    id             TEXT NOT NULL UNIQUE,
    lane           INTEGER NOT NULL REFERENCES outbox_lane (n),
    created_at     INTEGER NOT NULL,
    tenant_id      TEXT,
    key            TEXT,
    seq            INTEGER,
    dedupe_key     TEXT,
    subject        TEXT,
    correlation_id TEXT
) STRICT;
CREATE INDEX outbox_archived_tenant ON outbox_archived (tenant_id) WHERE tenant_id IS NOT NULL;

CREATE TABLE outbox_dead (
    n            INTEGER PRIMARY KEY REFERENCES outbox_message,
    lane         INTEGER NOT NULL,
    attempts     INTEGER NOT NULL,
    spent        INTEGER NOT NULL,
    redriven     INTEGER NOT NULL,
    reason       TEXT NOT NULL, -- attempts, terminal, expired, skipped
    code         TEXT,
    error        TEXT,
    died_at      INTEGER NOT NULL,
    budget       INTEGER NOT NULL, -- what it might spend, and
    by_sink      INTEGER NOT NULL, -- whether a route or sink said so
    discarded_at INTEGER,          -- an operator gave it up
    fingerprint  INTEGER           -- of its failure: see 006_groups.sql
) STRICT;
CREATE INDEX outbox_dead_group ON outbox_dead (fingerprint, n, died_at) WHERE discarded_at IS NULL;
CREATE INDEX outbox_dead_died ON outbox_dead (died_at);
CREATE INDEX outbox_dead_lane ON outbox_dead (lane, died_at) WHERE discarded_at IS NULL;

CREATE TABLE outbox_dedupe (
    namespace  TEXT NOT NULL,
    topic      TEXT NOT NULL, -- '' where the dedupe_scope is the namespace
    dedupe_key TEXT NOT NULL,
    tenant_id  TEXT,
    id         TEXT NOT NULL,
    seq        INTEGER,
    PRIMARY KEY (namespace, topic, dedupe_key)
) STRICT, WITHOUT ROWID;
CREATE INDEX outbox_dedupe_tenant ON outbox_dedupe (tenant_id) WHERE tenant_id IS NOT NULL;

CREATE TABLE outbox_stream (
    namespace TEXT NOT NULL,
    topic     TEXT NOT NULL,    -- '' where the order_scope is the namespace
    tenant_id TEXT NOT NULL,    -- '' for none
    key       TEXT NOT NULL,
    sid       INTEGER NOT NULL, -- the n of its first message
    seq       INTEGER NOT NULL, -- the last one given out
    PRIMARY KEY (namespace, topic, tenant_id, key)
) STRICT, WITHOUT ROWID;

-- The enqueue's answer when the message was there already: one row.
CREATE TABLE outbox_duplicate (
    one     INTEGER PRIMARY KEY,
    id      TEXT,
    seq     INTEGER,
    after_n INTEGER -- the newest message when it came
) STRICT;
INSERT INTO outbox_duplicate (one) VALUES (1);

-- The enqueue's procedures: 004_enqueue.sql has a trigger for each. The columns are their arguments, and always null.
CREATE TABLE outbox_call_check (
    one INTEGER PRIMARY KEY, topic ANY, payload ANY, key ANY, dedupe_key ANY, tenant_id ANY, namespace ANY, subject ANY,
    recipient ANY, headers ANY, priority ANY, deliver_after ANY, expires_at ANY, max_attempts ANY, correlation_id ANY,
    content_type ANY, encoding ANY, for_readers ANY
) STRICT;
INSERT INTO outbox_call_check (one) VALUES (1);
CREATE TABLE outbox_call_lane (one INTEGER PRIMARY KEY, namespace TEXT, topic TEXT) STRICT;
INSERT INTO outbox_call_lane (one) VALUES (1);
CREATE TABLE outbox_call_key (
    one INTEGER PRIMARY KEY, n INTEGER, namespace TEXT, topic TEXT, tenant_id TEXT, key TEXT, lane INTEGER, prio INTEGER,
    due INTEGER, sid INTEGER, seq INTEGER, expires_at INTEGER, bytes INTEGER, max_attempts INTEGER, created_at INTEGER
) STRICT;
INSERT INTO outbox_call_key (one) VALUES (1);
CREATE TABLE outbox_call_dedupe (
    one INTEGER PRIMARY KEY, namespace TEXT, topic TEXT, tenant_id TEXT, dedupe_key TEXT, keep INTEGER
) STRICT;
INSERT INTO outbox_call_dedupe (one) VALUES (1);
CREATE TABLE outbox_call_frame (one INTEGER PRIMARY KEY, namespace TEXT, topic TEXT) STRICT;
INSERT INTO outbox_call_frame (one) VALUES (1);

-- What operators did. Append-only like outbox_attempt.
CREATE TABLE outbox_act (
    n          INTEGER PRIMARY KEY,
    at         INTEGER NOT NULL,
    actor      TEXT NOT NULL,
    action     TEXT NOT NULL,
    reason     TEXT,
    message_id TEXT,
    tenant_id  TEXT,
    detail     TEXT -- JSON
) STRICT;
CREATE INDEX outbox_act_message ON outbox_act (message_id) WHERE message_id IS NOT NULL;

CREATE TABLE outbox_pause (
    namespace   TEXT NOT NULL, -- '': all; may be a pattern with * and ?, as may the topic
    topic       TEXT NOT NULL, -- '': all of the namespace
    sink TEXT NOT NULL, -- a sink by name; relays obey it; '': none
    at          INTEGER NOT NULL,
    actor       TEXT NOT NULL,
    reason      TEXT,
    PRIMARY KEY (namespace, topic, sink)
) STRICT, WITHOUT ROWID;

-- Outcomes pass through here, for the application's own AFTER INSERT triggers: see docs/sqlite.md. It is always empty.
CREATE TABLE outbox_event (
    event          TEXT NOT NULL,
    at             INTEGER NOT NULL,
    id             TEXT NOT NULL,
    status         TEXT NOT NULL, -- of the message, after the event
    namespace      TEXT NOT NULL,
    topic          TEXT NOT NULL,
    tenant_id      TEXT,
    key            TEXT,
    seq            INTEGER,
    dedupe_key     TEXT,
    subject        TEXT,
    recipient      TEXT,
    correlation_id TEXT,
    attempt        INTEGER NOT NULL,
    actor          TEXT NOT NULL, -- the worker, or the operator
    code           TEXT,
    error          TEXT,
    reference      TEXT,
    output         TEXT           -- JSON that the sink returned
) STRICT;

-- An event that a trigger refused. The outcome itself is recorded.
CREATE TABLE outbox_hook_failure (
    n         INTEGER PRIMARY KEY,
    failed_at INTEGER NOT NULL,
    failure   TEXT NOT NULL,
    tries     INTEGER NOT NULL DEFAULT 1,
    event TEXT NOT NULL, at INTEGER NOT NULL, id TEXT NOT NULL, status TEXT NOT NULL, namespace TEXT NOT NULL,
    topic TEXT NOT NULL, tenant_id TEXT, key TEXT, seq INTEGER, dedupe_key TEXT, subject TEXT, recipient TEXT,
    correlation_id TEXT, attempt INTEGER NOT NULL, actor TEXT NOT NULL, code TEXT, error TEXT, reference TEXT,
    output TEXT
) STRICT;

-- Opens the guards of 002_guards.sql for one transaction: empty outside of purge and erase_tenant.
CREATE TABLE outbox_gate (
    one          INTEGER PRIMARY KEY,
    purge_before INTEGER, -- messages created before may be deleted, with their attempts
    tenant_id    TEXT     -- what belongs to this tenant may be deleted
) STRICT;
