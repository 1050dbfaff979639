-- From cdb2c6616221623f7048da7c900e3b4baef0da57c7758ca248f2e76395ea3160 (002_tables): the outbox before it had a log.
--
-- One transaction with what follows: all later migrations, run again. It waits for transactions that used the outbox, shortly; new
-- ones wait at their first statement, which in enqueue is the one on namespace. A call that waited goes on in its old text: it
-- writes a message and a row of the queue, which is right while lane is 'queue'. Migrate turns the log on when all such are over.
-- Rows of the queue, leases, dead letters, keys and their numbers, dedupe keys stay as they are.
set local lock_timeout = '500 ms'; -- below deadlock_timeout: it is us who give up
lock table @schema@.namespace in access exclusive mode;
lock table @schema@.stream, @schema@.message, @schema@.message_kept, @schema@.queue, @schema@.attempt, @schema@.attempt_kept, @schema@.dead,
    @schema@.dedupe, @schema@.lane, @schema@.pause, @schema@.hook, @schema@.hook_failure, @schema@.act, @schema@.period, @schema@.maintenance,
    @schema@.relay, @schema@.tuning in access exclusive mode;

-- The code goes. Whatever somebody else made that depends on it stops the upgrade.
do $$
declare
    o record;
    v_list text;
begin
    for o in select p.polname, p.polrelid::regclass as name from pg_policy p join pg_class c on c.oid = p.polrelid
              where c.relnamespace = '@schema@'::regnamespace loop
        execute format('drop policy %I on %s', o.polname, o.name);
    end loop;
    select string_agg(c.oid::regclass::text, ', ') into v_list from pg_class c
     where c.relnamespace = '@schema@'::regnamespace and c.relkind = 'v';
    execute 'drop view ' || v_list;
    select string_agg(p.oid::regprocedure::text, ', ') into v_list from pg_proc p
     where p.pronamespace = '@schema@'::regnamespace and not exists (select from pg_trigger t where t.tgfoid = p.oid);
    execute 'drop routine ' || v_list;
    select string_agg(c.oid::regclass::text, ', ') into v_list from pg_class c
     where c.relnamespace = '@schema@'::regnamespace and c.relkind = 'c' and c.relname <> 'receipt';
    execute 'drop type ' || v_list;
end
$$;

-- The tables, as 002_tables.sql has them. New columns come last here.
alter table @schema@.namespace add column lane text check (lane in ('log', 'queue'));
update @schema@.namespace set lane = 'queue' where name = '*';
alter table @schema@.lane alter column namespace type text collate "C", alter column topic type text collate "C", add column max_payload int,
    add column max_attempts smallint, add column log boolean, add column rings boolean, add column tenant_prefix boolean,
    add column dedupe_by_topic boolean, add column order_by_topic boolean;
alter table @schema@.lane set (fillfactor = 80);
alter table @schema@.attempt add column last_id uuid, add column ids uuid[], add column latencies int[], add column codes text[],
    add column refs text[];
alter table @schema@.attempt_kept add column last_id uuid, add column ids uuid[], add column latencies int[], add column codes text[],
    add column refs text[];
alter table @schema@.attempt alter ids set storage external, alter latencies set storage external;
create index attempt_batch on @schema@.attempt (message_id, last_id) where ids is not null;
create index attempt_kept_batch on @schema@.attempt_kept (message_id, last_id) where ids is not null;
create index dead_topic on @schema@.dead (namespace, topic, died_at);
alter table @schema@.queue add column fingerprint bigint;
alter table @schema@.dead add column fingerprint bigint;
create index queue_group on @schema@.queue (fingerprint, id) where fingerprint is not null;
create index dead_group on @schema@.dead (fingerprint, id) include (died_at);
create index dead_died on @schema@.dead (died_at);
drop index @schema@.act_discard;
create index act_discard on @schema@.act (message_id) where action in ('discard', 'move');
alter table @schema@.dead drop constraint dead_reason_check,
    add constraint dead_reason_check check (reason in ('attempts', 'terminal', 'expired', 'skipped'));
alter table @schema@.stream add column ord xid8;
do $$
declare
    o record;
begin
    for o in select x.name from unnest('{message,message_kept,dead}'::text[]) x(name) loop
        execute format('alter table %I.%I add column ord xid8, add column pos bigint, add column lane bigint, add column sid bigint, '
            'add column xid xid8, add column due timestamptz, add column bytes int, add column shard smallint', @schema_text@, o.name);
    end loop;
end
$$;
create index message_log on @schema@.message (shard, ord, pos) where shard is not null;
create index message_late on @schema@.message (shard, xid) where xid is not null;
create sequence @schema@.pos;

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
