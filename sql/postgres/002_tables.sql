-- Tables: all that an upgrade keeps. What the later files create is code, and is created anew (see upgrade/).
--
--   message   immutable; written once, never updated; partitioned by its time-ordered id, so retention is a DROP.
--             Read by the index message_log it is the log: messages in the order of their commits, see 007_log.sql
--   log_window  a piece of the log that a relay has taken under a lease, or has settled
--   queue     hot and narrow; one row per message that is neither delivered nor dead, and not in the log any more
--   attempt   append-only; one row per finished attempt, or for many that were delivered together; partitioned like message
--   dead      dead letters, each with a copy of its message
--   dedupe    dedupe keys, kept forever; stream: the last seq of every key
--   lane      the (namespace, topic) pairs seen; lane.id leads the queue's index
--
-- Invariants
--   1. A message is in queue or in dead, never in both, except a dead head that holds its key (queue.held).
--   2. The rows of a key leave the queue from the front only. seq is gapless, so "my predecessor (sid, seq - 1) is not
--      in the queue" means that everything before me is settled. claim relies on it: one probe, however long the
--      history.
--   3. A claim changes no indexed column, so it is a HOT update; that is why the lease end is not the due time. A leased
--      row is half as long again as a pending one: fillfactor 35 leaves room for a whole page of them.
--   4. The relay never waits for a producer, and no producer waits for the relay.

-- Settings. The row '*' has every value; a namespace's own row overrides what it names.
create table @schema@.namespace (
    name              text primary key,
    dedupe_scope      text check (dedupe_scope in ('topic', 'namespace')),
    order_scope       text check (order_scope in ('topic', 'namespace')),
    tenant_prefix     boolean,
    on_dead           text check (on_dead in ('continue', 'hold')),
    max_payload       int check (max_payload between @max_payload_min@ and @max_payload_max@),
    max_attempts      int check (max_attempts between @max_attempts_min@ and @max_attempts_max@),
    retry_base        interval check (retry_base between '@retry_base_min@ us' and '@retry_base_max@ us'),
    retry_cap         interval check (retry_cap between '@retry_cap_min@ us' and '@retry_cap_max@ us'),
    lane              text check (lane in ('log', 'queue')), -- where messages wait for their first attempt
    doorbell          boolean,
    retention         interval check (name = '*' or retention is null),
    attempt_retention interval check (name = '*' or attempt_retention is null),
    partition_width   interval check ((name = '*' or partition_width is null) and partition_width between '1 hour' and '10 years')
);
insert into @schema@.namespace
values ('*', 'topic', 'topic', true, 'continue', 1048576, 15, '1 s', '30 min', 'log', true, '7 days', null, '1 day');

-- Not unique on purpose: a unique index would make the first producers of a topic wait for each other's commit. The id
-- is a digest of the pair, so concurrent producers write identical rows, and readers take any of them.
-- The namespace's settings come along, so that an enqueue looks up one row: see lane_for in 003_enqueue.sql. Only names that
-- are valid get a row.
create table @schema@.lane (
    id              bigint not null,
    namespace       text collate "C" not null,
    topic           text collate "C" not null,
    doorbell        int not null default 0,
    created_at      timestamptz not null default clock_timestamp(),
    max_payload     int, -- null: the settings are not here
    max_attempts    smallint,
    log             boolean,
    rings           boolean,
    tenant_prefix   boolean,
    dedupe_by_topic boolean,
    order_by_topic  boolean
) with (fillfactor = 80);
create index lane_name on @schema@.lane (namespace, topic);
create index lane_id on @schema@.lane (id);
create index lane_topic on @schema@.lane (topic);

create table @schema@.message (
    id             uuid not null,
    created_at     timestamptz not null,
    ord            xid8,        -- its place in the log is (ord, pos): its transaction, or that of its key's last message if later
    pos            bigint,
    lane           bigint,
    seq            bigint,
    sid            bigint,      -- the key's stream; null: no order to keep
    xid            xid8,        -- its transaction, where that is not ord, or there is no ord
    due            timestamptz, -- null: at once
    expires_at     timestamptz,
    tenant_id      uuid,
    bytes          int,         -- of the payload, as it is delivered
    shard          smallint,    -- of the log: -1 without a key; null: never in the log, it began in the queue
    priority       smallint not null,
    max_attempts   smallint,    -- null: its producer did not say
    namespace      text not null,
    topic          text not null,
    key            text,
    dedupe_key     text,
    subject        text,
    recipient      text,
    correlation_id text,
    content_type   text,
    headers        jsonb,
    payload        jsonb,
    body           bytea,
    encoding       text, -- of body: null as it is, 'zstd' compressed by its producer
    primary key (id)
) partition by range (id);
create index message_tenant on @schema@.message (tenant_id, id) where tenant_id is not null;
create index message_subject on @schema@.message (subject, id) where subject is not null;
create index message_log on @schema@.message (shard, ord, pos) where shard is not null;
create index message_late on @schema@.message (shard, xid) where xid is not null; -- of the log nearly none; and what began in the queue
create sequence @schema@.pos;
-- For rows that no partition covers: a producer must never fail because purge did not run.
create table @schema@.message_default partition of @schema@.message default;
-- Rows of retired partitions that are still needed: undelivered and dead messages, and those settled late.
create table @schema@.message_kept (like @schema@.message, primary key (id));

-- Who takes from a shard of the log locks its row here: not an advisory lock, which any login can take.
create table @schema@.log_shard (
    shard smallint primary key
);
insert into @schema@.log_shard select generate_series(-1, 7);

-- Up to here everything in the log is settled: while the sequence pos stands there, nobody need look.
create table @schema@.log_quiet (
    pos bigint not null
);
insert into @schema@.log_quiet values (0);

-- The windows of the log, the newest of each shard being its state; see 007_log.sql.
create table @schema@.log_window (
    shard     smallint not null,
    open      boolean not null,
    complete  boolean not null,     -- the range between the two snapshots ends with this window
    plain     boolean not null,     -- nothing was left out
    size      int not null,         -- messages handed out,
    remaining int not null,         -- and of those not settled
    id        bigint not null,      -- per shard, counts up
    nonce     bigint,               -- the worker's; with the id it is the token. Null: nothing was handed out
    cluster   bigint not null,      -- whose transaction numbers these are
    base      bigint not null,      -- messages up to this pos are of the time before a rebase
    high      bigint not null,      -- no pos that upto sees is higher
    from_ord  xid8 not null,        -- it has what is after this,
    from_pos  bigint not null,
    to_ord    xid8 not null,        -- up to this,
    to_pos    bigint not null,
    before    pg_snapshot not null, -- is not visible here,
    upto      pg_snapshot not null, -- but here,
    denied    bigint[],             -- is not in these lanes,
    keys      bigint[],             -- and not of these streams
    floor     bigint not null,      -- no window before this id is open
    purged    bigint not null,      -- windows before this id are deleted
    taken_at  timestamptz not null,
    until     timestamptz,
    swept     timestamptz not null, -- when the last look for windows whose lease has ended was
    holder    text,
    primary key (shard, id)
) with (fillfactor = 60, autovacuum_vacuum_scale_factor = 0.02, autovacuum_vacuum_cost_delay = 0, vacuum_truncate = off);
create unique index log_window_nonce on @schema@.log_window (nonce) where nonce is not null;

create table @schema@.queue (
    id           uuid not null primary key,
    lane         bigint not null,
    due          timestamptz not null,
    until        timestamptz, -- lease end; null: pending
    since        timestamptz, -- when this state began: claimed, or given back
    sid          bigint,      -- the key's stream; null: no order to keep
    seq          bigint,
    expires_at   timestamptz,
    tenant_id    uuid,
    attempts     int not null default 0,      -- number of the last attempt begun: never falls
    retry_base   int,                         -- ms; the policy of the claim that holds it
    retry_cap    int,
    bytes        int not null default 0,      -- of the payload, as it is delivered
    spent        smallint not null default 0, -- of the budget max_attempts
    deferred     smallint not null default 0, -- how many times in a row it was limited, blocked or silent
    lost         smallint not null default 0, -- of those: attempts whose worker was not heard of again
    max_attempts smallint not null,           -- the message's own, or a sink's, or the namespace's
    ceiling      smallint,                    -- the budget under the claim that holds it
    prio         smallint not null,
    shard        smallint not null,           -- -1: no key
    parked       boolean not null default false, -- waits for its predecessor to be settled, not for a time
    held         boolean not null default false, -- dead, and its key waits for an operator
    redriven     boolean not null default false,
    by_sink      boolean not null default false, -- max_attempts is what a route or sink said
    holder       text,
    fingerprint  bigint -- of its last failure: see 014_groups.sql; null: it has not failed
) with (fillfactor = 35, autovacuum_vacuum_scale_factor = 0.02, autovacuum_vacuum_cost_delay = 0,
        autovacuum_analyze_scale_factor = 0.1, vacuum_truncate = off);
create index queue_due on @schema@.queue (lane, prio, shard, due) where not parked;
-- For claims while many lanes have rows: see 004_find.sql.
create index queue_next on @schema@.queue (prio, shard, due) where not parked;
create index queue_tenant on @schema@.queue (tenant_id, lane, prio, shard, due) where not parked and tenant_id is not null;
create unique index queue_key on @schema@.queue (sid, seq) where sid is not null;
-- The rows that a settle has to wake: nearly always none, and then the lookup is cheap.
create index queue_parked on @schema@.queue (sid, seq) where parked;
create index queue_group on @schema@.queue (fingerprint, id) where fingerprint is not null;

create table @schema@.attempt (
    message_id   uuid not null,
    attempt_no   int not null,
    outcome      smallint not null, -- the numbers of 006_settle.sql
    spent        smallint not null,
    latency      int,  -- ms, from claim to settle as the worker measured it
    claimed_at   timestamptz,
    completed_at timestamptz not null,
    tenant_id    uuid,
    worker       text,
    code         text,
    error        text,
    reference    text,
    -- A batch: many messages of the log that were delivered at the first attempt share a row. It has number 0, and the lowest of their
    -- ids as message_id. They are of the same ten seconds, and have no tenant.
    last_id      uuid,
    ids          uuid[],
    latencies    int[],
    codes        text[],
    refs         text[],
    primary key (message_id, attempt_no)
) partition by range (message_id);
alter table @schema@.attempt alter ids set storage external, alter latencies set storage external;
create index attempt_batch on @schema@.attempt (message_id, last_id) where ids is not null;
create table @schema@.attempt_default partition of @schema@.attempt default;
create table @schema@.attempt_kept (like @schema@.attempt, primary key (message_id, attempt_no));
create index attempt_kept_batch on @schema@.attempt_kept (message_id, last_id) where ids is not null;

-- What remains of a message when attempts are kept longer than messages.
create table @schema@.archived (
    id             uuid primary key,
    created_at     timestamptz not null,
    tenant_id      uuid,
    seq            bigint,
    namespace      text not null,
    topic          text not null,
    key            text,
    dedupe_key     text,
    subject        text,
    correlation_id text
);

create table @schema@.dead (
    like @schema@.message,
    attempts   int not null,
    spent      smallint not null,
    reason     text not null check (reason in ('attempts', 'terminal', 'expired', 'skipped')),
    code       text,
    error      text,
    died_at    timestamptz not null,
    held       boolean not null default false,
    budget     smallint not null,              -- what it might spend, and
    by_sink    boolean not null default false, -- whether a route or sink said so
    fingerprint bigint,                        -- of its failure: see 014_groups.sql
    primary key (id)
);
create index dead_topic on @schema@.dead (namespace, topic, died_at);
create index dead_group on @schema@.dead (fingerprint, id) include (died_at);
create index dead_died on @schema@.dead (died_at);
create index dead_tenant on @schema@.dead (tenant_id, id) where tenant_id is not null;

create table @schema@.dedupe (
    digest     uuid primary key,
    id         uuid not null,
    tenant_id  uuid,
    seq        bigint,
    created_at timestamptz not null default clock_timestamp()
) with (fillfactor = 90);
create index dedupe_tenant on @schema@.dedupe (tenant_id) where tenant_id is not null;

create table @schema@.stream (
    digest    uuid primary key,
    sid       bigint not null generated always as identity,
    seq       bigint not null,
    ord       xid8, -- the place in the log of the key's last message; null: it was never there
    tenant_id uuid,
    namespace text not null,
    topic     text not null, -- '' where the namespace's order_scope is 'namespace'
    key       text not null
) with (fillfactor = 50);
create index stream_tenant on @schema@.stream (tenant_id) where tenant_id is not null;

-- What operators did. Append-only like attempt.
create table @schema@.act (
    id         bigint generated always as identity primary key,
    at         timestamptz not null default clock_timestamp(),
    actor      text not null,
    action     text not null,
    reason     text,
    message_id uuid,
    tenant_id  uuid,
    detail     jsonb
);
create index act_message on @schema@.act (message_id) where message_id is not null;
create index act_discard on @schema@.act (message_id) where action in ('discard', 'move');

create table @schema@.pause (
    id          bigint generated always as identity primary key,
    namespace   text, -- null: all
    topic       text, -- null: all of the namespace
    sink text, -- a sink by name; relays obey it
    lane        bigint, -- of one topic, whether there is such a lane yet or not
    like_namespace text, -- where namespace or topic has a * or a ?: both, as patterns of LIKE
    like_topic  text,
    at          timestamptz not null default clock_timestamp(),
    actor       text not null,
    reason      text
);
create index pause_lane on @schema@.pause (lane) where lane is not null;
create index pause_namespace on @schema@.pause (namespace) where sink is null and topic is null;

create table @schema@.hook (
    id            bigint generated always as identity primary key,
    namespace     text, -- null: all
    topic         text, -- null: all
    function_schema text not null,
    function_name text not null,
    function_owner text not null,
    registrant    text not null default session_user,
    created_at    timestamptz not null default clock_timestamp()
);

-- An outcome that a hook has not accepted yet. The outcome itself is recorded. No tries: a claim left it here, or a
-- hook before it took too long.
create table @schema@.hook_failure (
    id         bigint generated always as identity primary key,
    hook_id    bigint not null,
    tenant_id  uuid,
    event      jsonb not null,
    tries      int not null default 1,
    error      text,
    failed_at  timestamptz not null default clock_timestamp()
);

-- The existing partitions; a null drop time means in use.
create table @schema@.period (
    start   timestamptz primary key,
    finish  timestamptz not null,
    suffix  text not null unique,
    message boolean not null default true,
    attempt boolean not null default true
);

-- The session that does maintenance locks its row here: not an advisory lock, which any login can take.
create table @schema@.maintenance (
    name text primary key
);
insert into @schema@.maintenance values ('purge');

-- One row per running relay, written by the relay itself every few seconds.
create table @schema@.relay (
    worker     text primary key,
    host       text,
    pid        int,
    version    text,
    state      text not null,
    started_at timestamptz not null,
    seen_at    timestamptz not null,
    every      interval not null check (every > '0'), -- between two beats
    info       jsonb
) with (fillfactor = 50);

-- Settings of relays that an operator changed while they ran; they override the configuration file.
create table @schema@.tuning (
    name   text primary key,
    value  text not null,
    at     timestamptz not null default clock_timestamp(),
    actor  text not null,
    reason text
);

-- The last hour, for charts: what each relay did since its last row, and by the leader how the outbox stood. Bounded: see record_history.
create table @schema@.series (
    at        timestamptz not null,
    worker    text not null,
    delivered bigint not null,
    failed    bigint not null,
    dead      bigint not null,
    latencies text not null, -- counts, by the bounds of src/core/history.c
    pending   bigint,        -- from here: of the leader
    open      bigint,        -- neither delivered nor dead
    oldest_s  double precision,
    estimated boolean
);
create index series_at on @schema@.series (at);

-- What operators were told of dead letters: see tell_news.
create table @schema@.notice (
    name       text primary key,
    at         timestamptz not null,
    upto       pg_snapshot not null, -- what is visible here they know
    message_id uuid                  -- the last one
);
insert into @schema@.notice values ('dead', clock_timestamp(), pg_current_snapshot());

-- How many attempts were lost with their worker so far: claim counts them in a sequence, so no claim waits. A claim that is
-- rolled back counts too.
create sequence @schema@.repair;

-- The append-only guard. Only retention and erasure pass it: they run as the owner, a role that nobody logs in as and
-- that no setting can assume.
create function @schema@.append_only() returns trigger
    language plpgsql
    set search_path = pg_catalog, pg_temp
as $$
begin
    if tg_op <> 'UPDATE' and current_user = @schema_text@ || '_owner' then
        return old;
    end if;
    raise exception '% is append-only: % is refused', tg_table_name, tg_op using errcode = 'P0001',
        hint = 'The record of what happened is never rewritten.';
end
$$;
create trigger append_only before update or delete on @schema@.attempt for each row execute function @schema@.append_only();
create trigger append_only_truncate before truncate on @schema@.attempt execute function @schema@.append_only();
create trigger append_only_truncate before truncate on @schema@.attempt_default execute function @schema@.append_only();
create trigger append_only before update or delete on @schema@.attempt_kept for each row execute function @schema@.append_only();
create trigger append_only_truncate before truncate on @schema@.attempt_kept execute function @schema@.append_only();
create trigger append_only before update or delete on @schema@.act for each row execute function @schema@.append_only();
create trigger append_only_truncate before truncate on @schema@.act execute function @schema@.append_only();

-- The larger columns are compressed with lz4 if the server supports it: version 14 or later, built with lz4. New
-- partitions are created like their parent (make_period).
do $$
declare
    c record;
begin
    for c in select t.name as tab, f.name as col from unnest('{message,message_default,message_kept,dead}'::text[]) t(name),
                    unnest('{headers,payload,body}'::text[]) f(name)
              where current_setting('server_version_num')::int >= 140000 loop
        execute format('alter table %I.%I alter column %I set compression lz4', @schema_text@, c.tab, c.col);
    end loop;
exception when feature_not_supported then
    null; -- pglz stays
end
$$;

create type @schema@.receipt as (id uuid, created boolean, seq bigint);
