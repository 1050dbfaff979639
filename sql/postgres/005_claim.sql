-- Claim: takes due messages under a lease.
--
-- One call is one transaction. It never waits for a lock (SKIP LOCKED throughout; but if others change a row twice
-- while it is being locked, the server does wait, and very rarely a settle and a claim deadlock, 40P01: the claim is
-- then simply repeated). These are its steps:
--
--   1 find   what is due, oldest first, a probe of the index per (lane, priority, shard), and lock it: 004_find.sql
--   2 order  of each key keep only the unbroken run from its first unsettled message
--   3 park   what is blocked behind another message, so that no later claim walks over it
--   4 bury   what has no attempts left, or has expired
--   5 lease  the rest: a HOT update, since no indexed column changes
--
-- Order per key. Rows of a key leave the queue from the front only and seq has no gaps; so a row may go when the row
-- (sid, seq - 1) is not there, or is taken by this very claim. Both are facts that no other session can undo: the absent
-- row will not come back, and ours is locked. Reading "everything before me is leased" from one snapshot is not enough:
-- a message of the key may be in another claim that has not committed.
--
-- For a blocked row, the claim also looks up the first row of its key, and takes that instead if it is free: once woken
-- or released, it may be due later than those behind it, and all of them would be parked before it is found.
--
-- Parking. A blocked row is parked only while its predecessor is locked by us: the settle that removes the predecessor
-- waits for our commit, and its next statement then sees the parked row and wakes it. Without that lock, the settle
-- could miss the parked row, which would then never be woken.
--
-- Depth. If many workers each claim the first message of many keys, they block each other: what they find next is
-- blocked by what the others hold, and is parked and woken for nothing. So a worker that found many keys blocked and
-- may take runs claims fewer keys and more messages of each, until that no longer fills a batch.
--
-- Suspects. A message whose attempts were all lost may have crashed its worker, or was only in the same batch as one
-- that did. Its last attempt is made in a batch of its own, so that it cannot affect other messages. Such batches and
-- others alternate.
--
-- Bytes. A batch ends before the payloads exceed max_bytes; the first message is taken whatever its size. What does not
-- fit is unchanged. If there is more than the batch holds, for this or any reason other than "limit", the setting
-- outbox.more says so for the rest of the transaction.

-- What a claim hands out. The worker decodes bytes with an encoding: see docs/worker.md. stream: the scope of seq; the
-- key alone does not identify it, because each tenant and topic has its own.
create type @schema@.delivery as (id uuid, token bigint, namespace text, topic text, tenant_id uuid, key text, seq bigint,
    dedupe_key text, subject text, recipient text, headers jsonb, correlation_id text, payload jsonb, body bytea,
    content_type text, priority int, attempt int, spent int, max_attempts int, redriven boolean, created_at timestamptz,
    claimed_at timestamptz, locked_until timestamptz, expires_at timestamptz, place tid,
    encoding text, stream bigint, deferred int, lost int, own_attempts boolean, retry_base_ms int, retry_cap_ms int);

-- All stored messages; none is in both tables.
create view @schema@.stored as
    select * from @schema@.message
    union all
    select * from @schema@.message_kept;

-- Partitions. A cached plan locks all partitions of a table before it knows which of them it needs: with two years of
-- partitions, a few workers fill the server's lock table. So statements that find messages or attempts by id are
-- planned for each call (force_custom_plan), with the spans of its ids as constants: the planner excludes the other
-- partitions, and they are not locked. That costs a claim 0.5 ms, so claims do it only if there are more than a few
-- partitions.

-- At most eight spans that cover these ids, which are in order: a span is within partitions that follow each other, and each
-- of them holds some. Where that takes more than eight, the last covers all the rest.
create function @schema@.spans_of(ids uuid[], out low uuid[], out high uuid[])
    language plpgsql
as $$
declare
    v_at int := cardinality(ids);
    v_below uuid;
    p record;
begin
    low := '{}';
    while v_at > 0 loop
        select @schema@.uuid_at(x.start) as start, @schema@.uuid_at(x.finish) as finish into p
          from @schema@.period x
         where x.start <= to_timestamp(('x' || left(replace(ids[v_at]::text, '-', ''), 12))::bit(48)::bigint / 1000::float8)
         order by x.start desc limit 1;
        if cardinality(low) = 0 or (p.finish is distinct from v_below and cardinality(low) < 8) then
            low := low || ids[v_at];
            high := high || ids[v_at];
        end if;
        v_at := least(coalesce(width_bucket(p.start, ids), 0), v_at - 1);
        low[cardinality(low)] := ids[v_at + 1];
        v_below := p.start;
    end loop;
end
$$;

-- Whether an id is in one of the spans. It is inlined, and unused spans are optimised away.
create function @schema@.within(id uuid, low uuid[], high uuid[]) returns boolean
    language sql immutable
as $$
    select id operator(pg_catalog.>=) low[1] and id operator(pg_catalog.<=) high[1]
        or id operator(pg_catalog.>=) low[2] and id operator(pg_catalog.<=) high[2]
        or id operator(pg_catalog.>=) low[3] and id operator(pg_catalog.<=) high[3]
        or id operator(pg_catalog.>=) low[4] and id operator(pg_catalog.<=) high[4]
        or id operator(pg_catalog.>=) low[5] and id operator(pg_catalog.<=) high[5]
        or id operator(pg_catalog.>=) low[6] and id operator(pg_catalog.<=) high[6]
        or id operator(pg_catalog.>=) low[7] and id operator(pg_catalog.<=) high[7]
        or id operator(pg_catalog.>=) low[8] and id operator(pg_catalog.<=) high[8]
$$;

-- Checks return true or raise: assigned to a variable they cost a call, performed they cost a statement, several times as much.
create function @schema@.check_isolation() returns boolean
    language plpgsql
as $$
begin
    if current_setting('transaction_isolation') <> 'read committed' then
        raise exception 'this needs READ COMMITTED, not %', upper(current_setting('transaction_isolation'))
            using errcode = 'OB007', hint = 'Call it in a transaction of its own, or BEGIN ISOLATION LEVEL READ COMMITTED.';
    end if;
    return true;
end
$$;

-- takes: the range in words.
create function @schema@.check_range(name text, value numeric, low numeric, high numeric, unit text, takes text)
    returns boolean
    language plpgsql immutable
as $$
begin
    if value is null or value not between low and high then
        raise exception '"%" is %', name, coalesce(value || unit, 'null') using errcode = 'OB001',
            hint = format('It takes %s.', takes);
    end if;
    return true;
end
$$;

-- A locked row that has a key.
create type @schema@.keyed_row as (tid tid, sid bigint, seq bigint, spent int, exhausted boolean);

-- Steps 2 and 3, for rows that have a key. take and die are added to; the rest of the rows is parked. crowd: how many
-- keys these have. runs: of some key more than one was taken.
create function @schema@.order_keys(tids tid[], s @schema@.scope, most int, run int, prefetch boolean,
    worker text, attempts_limit int, v_now timestamptz, inout take tid[], inout die tid[], out parked int,
    out crowd int, out extended boolean, out runs boolean)
    language plpgsql
as $$
#variable_conflict use_column
declare
    v_rows @schema@.keyed_row[];
    v_more @schema@.keyed_row[];
    k record; -- their keys
    ready bigint[];
    v_blocked tid[];
begin
    parked := 0;
    crowd := 0;
    extended := false;
    runs := false;
    select array_agg(row (q.ctid, q.sid, q.seq, q.spent, @schema@.is_exhausted(q.spent, q.max_attempts, attempts_limit,
               q.expires_at, v_now))::@schema@.keyed_row)
      into v_rows
      from @schema@.queue q where q.ctid = any (tids) and q.sid is not null;

    -- The keys whose first locked row is their first unsettled one. A row out under this very worker counts as taken
    -- when the worker asked to prefetch. Lone ones are all there is of their key in this batch.
    select array_agg(f.sid) as ready, array_agg(f.sid) filter (where f.lone) as lone,
           array_agg(f.tid) filter (where f.lone) as tids
      into k
      from (select g.sid, min(g.seq) as seq, max(g.tid) as tid, count(*) = 1 and not bool_or(g.exhausted) as lone
              from unnest(v_rows) g group by g.sid) f
     where not exists (select from @schema@.queue p where p.sid = f.sid and p.seq = f.seq - 1
                        and not coalesce(prefetch and p.holder = worker and p.until > v_now, false));
    ready := k.ready;

    -- Nearly always all are lone, and nothing is left to do. Where the batch has room for runs, they may be longer.
    if k.lone is not null and (run = 1 or cardinality(v_rows) >= most) then
        take := take || k.tids;
        most := most - cardinality(k.tids);
        if cardinality(k.tids) = cardinality(v_rows) then
            return;
        end if;
        v_rows := array(select row (g.tid, g.sid, g.seq, g.spent, g.exhausted)::@schema@.keyed_row from unnest(v_rows) g
                       where g.sid not in (select unnest(k.lone)));
        ready := array(select r from unnest(ready) r where r not in (select unnest(k.lone)));
    end if;

    -- A key whose first row is not among them but free comes in with that row: woken, it may be due after those behind it.
    -- One probe of bounded length a key.
    if cardinality(v_rows) > 0 then
        select array_agg(row (q.tid, q.sid, q.seq, q.spent, q.exhausted)::@schema@.keyed_row)
          into v_more
          from (select g.sid, min(g.seq) as seq from unnest(v_rows) g
                 where (g.sid in (select unnest(ready))) is not true group by g.sid) b,
               lateral (select q.seq from @schema@.queue q where q.sid = b.sid and q.seq between b.seq - 64 and b.seq - 1
                         order by q.sid, q.seq limit 1) f,
               lateral (select q.ctid as tid, q.sid, q.seq, q.spent, @schema@.is_exhausted(q.spent, q.max_attempts,
                               attempts_limit, q.expires_at, v_now) as exhausted
                          from @schema@.queue q
                         where q.sid = b.sid and q.seq = f.seq
                           and not q.held and (s.open or @schema@.allows(s, q.lane))
                           and (q.parked or q.due <= v_now) and (q.until is null or q.until <= v_now)
                           and not exists (select from @schema@.queue p where p.sid = q.sid and p.seq = q.seq - 1)
                           for update skip locked) q;
        if v_more is not null then
            extended := true;
            ready := ready || array(select m.sid from unnest(v_more) m);
            v_rows := v_rows || v_more;
        end if;
    end if;

    -- Where the batch has room, their runs go on into rows that were parked, within the lanes asked for: a key may span
    -- topics.
    if run > 1 and cardinality(v_rows) < most and cardinality(ready) > 0 then
        select array_agg(row (q.tid, q.sid, q.seq, q.spent, q.exhausted)::@schema@.keyed_row)
          into v_more
          from (select g.sid, max(g.seq) as seq from unnest(v_rows) g
                 where (g.sid in (select unnest(ready))) is true group by g.sid) l, -- hashed, unlike any ()
               lateral (select q.ctid as tid, q.sid, q.seq, q.spent, @schema@.is_exhausted(q.spent, q.max_attempts,
                               attempts_limit, q.expires_at, v_now) as exhausted
                          from @schema@.queue q
                         where q.sid = l.sid and q.seq > l.seq
                           and q.seq <= l.seq + least(run, (most - cardinality(v_rows)) / cardinality(ready) + 1)
                           and not q.held and (s.open or @schema@.allows(s, q.lane))
                           and (q.parked or q.due <= v_now) and (q.until is null or q.until <= v_now)
                         order by q.seq
                           for update skip locked) q;
        extended := extended or v_more is not null;
        v_rows := v_rows || v_more;
    end if;

    -- The run: consecutive, to the first that is at its end. A message on its way again goes alone. Rows leave from the
    -- front only, so what is at its end behind one of our own waits for that one.
    select take || coalesce(array_agg(o.tid) filter (where not o.stop and o.n <= most), '{}'),
           die || coalesce(array_agg(o.tid) filter (where o.stop and o.place = 1 and not exists (
                      select from @schema@.queue p where p.sid = o.sid and p.seq = o.seq - 1)), '{}'),
           coalesce(bool_or(o.place > 1), false)
      into take, die, runs
      from (select r.*, row_number() over (order by r.stop, r.place, r.tid) as n
              from (select g.tid, g.sid, g.seq, row_number() over w as place, min(g.seq) over w as first_seq,
                           bool_or(g.exhausted) over w as stop, first_value(g.spent) over w as first_spent
                      from unnest(v_rows) g
                     where (g.sid in (select unnest(ready))) is true
                    window w as (partition by g.sid order by g.seq)) r
             where r.seq = r.first_seq + r.place - 1 and r.place <= case when r.first_spent > 0 then 1 else run end) o;

    -- What is left waits for its predecessor. First all locks, then the update: a row changed by the same statement
    -- cannot be locked any more. Who prefetches comes back for the rest of its own keys.
    select array_agg(g.tid), count(distinct g.sid) into v_blocked, crowd
      from unnest(v_rows) g,
           lateral (select from @schema@.queue p where p.sid = g.sid and p.seq = g.seq - 1
                       for update skip locked) locked_predecessor
     where g.tid not in (select unnest(take || die)) and not (prefetch and g.sid = any (coalesce(ready, '{}')));
    update @schema@.queue q set parked = true where q.ctid = any (v_blocked) and not q.parked;
    get diagnostics parked = row_count;
end
$$;

-- Step 4 for the rows given by place; see 006_settle.sql for bury. The lost attempt is recorded.
create function @schema@.record_lost(tids tid[], v_now timestamptz) returns void
    language plpgsql
as $$
declare
    v_lost bigint;
begin
    insert into @schema@.attempt (message_id, attempt_no, outcome, spent, claimed_at, completed_at, tenant_id, worker,
        code, error)
    select q.id, q.attempts, 4, q.spent, q.since, v_now, q.tenant_id, q.holder, 'lease_expired',
           'the worker did not settle before its lease expired'
      from @schema@.queue q where q.ctid = any (tids) and q.until is not null;
    get diagnostics v_lost = row_count;
    perform nextval('@schema@.repair') from generate_series(1, v_lost);
end
$$;

-- What a claim's arguments mean for lanes. lanes are named where they are given, or where a namespace has few.
create function @schema@.scope_of(namespace text, topics text[], only_namespaces text[], only_topics text[],
    skip_namespaces text[], skip_topics text[], rule_namespaces text[], rule_topics text[], rule_skips boolean[], few int)
    returns @schema@.scope
    language plpgsql
as $$
#variable_conflict use_variable
declare
    s @schema@.scope;
begin
    s.paused := exists (select from @schema@.pause p where p.lane is not null);
    s.quiet := (select array_agg(p.namespace) from @schema@.pause p
                 where p.sink is null and p.topic is null and p.like_namespace is null);
    if namespace is not null and topics is not null then
        s.lanes := array(select distinct l.id from unnest(topics) t(topic)
                           join @schema@.lane l on l.namespace = scope_of.namespace and l.topic = t.topic);
    elsif topics is not null then
        s.lanes := array(select distinct l.id from unnest(topics) t(topic) join @schema@.lane l on l.topic = t.topic);
    elsif namespace is not null then
        s.namespace := namespace;
        s.lanes := array(select l.id from @schema@.lane l where l.namespace = scope_of.namespace order by l.topic
                          limit 2 * few + 1);
        s.lanes := case when cardinality(s.lanes) <= 2 * few then array(select distinct unnest(s.lanes)) end;
    end if;
    if s.lanes is not null then
        s.namespace := null;
    end if;
    if only_namespaces is not null then
        s.lanes := array(select distinct l.id from unnest(only_namespaces, only_topics) o(namespace, topic)
                           join @schema@.lane l on l.namespace = o.namespace and l.topic = o.topic
                          where (s.lanes is null or l.id in (select unnest(s.lanes)))
                            and (s.namespace is null or l.namespace = s.namespace));
    end if;
    if skip_namespaces is not null then
        s.denied := array(select @schema@.lane_id(o.namespace, o.topic)
                            from unnest(skip_namespaces, skip_topics) o(namespace, topic));
    end if;
    select array_agg(p.like_namespace), array_agg(p.like_topic), array_agg(true) into s.namespaces, s.topics, s.skips
      from @schema@.pause p where p.like_namespace is not null;
    s.namespaces := s.namespaces || rule_namespaces;
    s.topics := s.topics || rule_topics;
    s.skips := s.skips || rule_skips;
    s.open := not s.paused and s.quiet is null and s.lanes is null and s.namespace is null and coalesce(cardinality(s.denied), 0) = 0
        and s.skips is null;
    return s;
end
$$;

-- Of what a claim would take, in the order it hands out, as much as may go together: see Suspects and Bytes. single: it is the
-- turn of a suspect. A key is cut at its end only.
create function @schema@.fit(take tid[], max_bytes bigint, single boolean, attempts_limit int, out kept tid[], out suspect boolean)
    language plpgsql
as $$
#variable_conflict use_column
declare
    r record;
begin
    with r as (
        select q.ctid as tid, q.sid, q.seq, q.bytes, q.prio, q.due, @schema@.is_suspect(q.spent, q.max_attempts,
                   attempts_limit, q.lost, q.until) as suspect
          from @schema@.queue q where q.ctid = any (take)
    ), g as (
        select r.*, case when r.sid is null then r.prio else max(r.prio) over run end as run_prio,
               case when r.sid is null then r.due else min(r.due) over run end as run_due
          from r window run as (partition by r.sid)
    ), o as (
        select g.*, row_number() over (order by g.run_prio desc, g.run_due, g.sid, g.seq, g.tid) as n from g
    ), k as (
        select o.*, case when o.sid is null then o.suspect
                         else bool_or(o.suspect) over (partition by o.sid order by o.seq) end as behind,
               o.sid is null or row_number() over (partition by o.sid order by o.seq) = 1 as first
          from o
    ), b as (
        select k.tid, k.n, k.behind, sum(k.bytes) filter (where not k.behind) over (order by k.n) as bytes,
               count(*) filter (where not k.behind) over (order by k.n) as place, k.suspect and k.first as single
          from k
    )
    select array_agg(b.tid order by b.n) filter (where not b.behind and (max_bytes is null or b.bytes <= max_bytes
               or b.place = 1)) as tids,
           (array_agg(b.tid order by b.n) filter (where b.single))[1:1] as single
      into r from b;
    suspect := r.single is not null and (single or r.tids is null);
    kept := case when suspect then r.single else coalesce(r.tids, '{}') end;
end
$$;

-- The arguments of a claim.
create function @schema@.check_claim(worker text, "limit" int, lease interval, max_attempts int, run int, retry_base interval,
    retry_cap interval, max_bytes bigint) returns boolean
    language plpgsql immutable
as $$
begin
    if coalesce(octet_length(worker), 0) not between @worker_min@ and @worker_max@ then
        raise exception '"worker" has % bytes', coalesce(octet_length(worker), 0) using errcode = 'OB001',
            hint = 'Give a name of @worker_range@ that tells this worker from the others.';
    end if;
    return @schema@.check_range('limit', "limit", @claim_min@, @claim_max@, '', '@claim_range@')
        and @schema@.check_range('lease', extract(epoch from lease)::numeric, @lease_min_s@, @lease_max_s@, ' s',
                '@lease_range@')
        and @schema@.check_range('run', run, @run_min@, @run_max@, '', '@run_range@')
        and (max_bytes is null or @schema@.check_range('max_bytes', max_bytes, 1, 9223372036854775807, '', '1 or more'))
        and (max_attempts is null or @schema@.check_range('max_attempts', max_attempts, @max_attempts_min@,
                @max_attempts_max@, '', '@max_attempts_range@'))
        and (retry_base is null or @schema@.check_range('retry_base', extract(epoch from retry_base)::numeric,
                @retry_base_min_s@, @retry_base_max_s@, ' s', '@retry_base_range@'))
        and (retry_cap is null or @schema@.check_range('retry_cap', extract(epoch from retry_cap)::numeric,
                @retry_cap_min_s@, @retry_cap_max_s@, ' s', '@retry_cap_range@'));
end
$$;

-- Of locked rows without a key: which can be taken, and which are exhausted.
create function @schema@.split_exhausted(tids tid[], attempts_limit int, v_now timestamptz, out take tid[], out die tid[])
    language plpgsql
as $$
#variable_conflict use_column
begin
    select coalesce(array_agg(q.ctid) filter (where not x.exhausted), '{}'),
           coalesce(array_agg(q.ctid) filter (where x.exhausted), '{}')
      into take, die
      from @schema@.queue q,
           lateral (select @schema@.is_exhausted(q.spent, q.max_attempts, attempts_limit, q.expires_at, v_now) as exhausted) x
     where q.ctid = any (tids) and q.sid is null;
end
$$;

-- settle will use the retry policy of the time of the claim, whatever is configured later (M21): in milliseconds;
-- by_lane: those of namespaces that have their own, as {lane: [base, cap]}, null for the default.
create function @schema@.retry_policy(take tid[], retry_base interval, retry_cap interval, out base int, out cap int,
    out by_lane jsonb)
    language plpgsql
as $$
#variable_conflict use_column
begin
    select extract(epoch from coalesce(retry_policy.retry_base, n.retry_base)) * 1000,
           extract(epoch from coalesce(retry_policy.retry_cap, n.retry_cap)) * 1000
      into base, cap from @schema@.namespace n where n.name = '*';
    if (retry_policy.retry_base is null or retry_policy.retry_cap is null) and exists (select from @schema@.namespace n
            where n.name <> '*' and (n.retry_base is not null or n.retry_cap is not null)) then
        select jsonb_object_agg(l.id, jsonb_build_array(
                   case when retry_policy.retry_base is null then extract(epoch from n.retry_base) * 1000 end::int,
                   case when retry_policy.retry_cap is null then extract(epoch from n.retry_cap) * 1000 end::int))
          into by_lane
          from (select distinct q.lane from @schema@.queue q where q.ctid = any (take)) t
          join @schema@.lane l on l.id = t.lane
          join @schema@.namespace n on n.name = l.namespace
         where n.retry_base is not null or n.retry_cap is not null;
    end if;
end
$$;

create function @schema@.policy_for(by_lane jsonb, lane bigint, which int, fallback int) returns int
    language sql immutable
as $$
    select case when by_lane is null then fallback else coalesce((by_lane -> lane::text ->> which)::int, fallback) end
$$;

create function @schema@.claim(worker text, "limit" int default 100, lease interval default '30 s',
    namespace text default null, topics text[] default null, tenant uuid default null, max_attempts int default null,
    run int default 1, prefetch boolean default false, retry_base interval default null,
    retry_cap interval default null, only_namespaces text[] default null, only_topics text[] default null,
    skip_namespaces text[] default null, skip_topics text[] default null, max_bytes bigint default null,
    rule_namespaces text[] default null, rule_topics text[] default null, rule_skips boolean[] default null,
    admit boolean default true)
    returns setof @schema@.delivery
    language plpgsql security definer
    set search_path = pg_catalog, pg_temp
    set datestyle = 'ISO, YMD' -- the memory is text
    set timezone = 'UTC'
    set intervalstyle = 'postgres'
    set jit = off
    set enable_seqscan = off
    set enable_hashjoin = off
    set enable_mergejoin = off
    set plan_cache_mode = force_generic_plan
as $$
#variable_conflict use_column
declare
    memory_name constant text := 'outbox.memory_' || '@schema@.queue'::regclass::oid;
    few constant int := 32; -- lanes with rows that get probes of their own
    v_start constant timestamptz := clock_timestamp();
    v_now timestamptz := v_start;
    v_memory @schema@.memory;
    v_fine boolean; -- only so that a check is not a statement
    v_kept text;    -- nor the keeping of the memory
    v_name constant text := concat_ws(',', claim.namespace, claim.topics::text, only_namespaces::text, only_topics::text,
        rule_namespaces::text, rule_topics::text, rule_skips::text);
    v_scope @schema@.scope;
    v_wide boolean := false;
    v_marks @schema@.mark[];
    v_aside @schema@.mark[]; -- of lanes denied just now: where to go on when they are not any more
    v_calm @schema@.mark[];  -- of probes that had nothing when they were swept
    v_fresh @schema@.mark[]; -- of what became due since the last sweep
    v_steps int;             -- rows that a wide probe may step over at once
    v_bounded boolean;       -- some probes did not look at all that is due
    v_walked_on boolean := false;
    v_last int;              -- the last probe that gave any
    v_read bigint;
    v_step record; -- what a step returns
    v_first @schema@.locked; -- what is taken out of order, to be fair
    v_depth int;
    v_width int; -- how many rows are looked for
    v_crowd int;
    v_crowded boolean := false;
    v_found int := 0; -- how many it may take of those
    v_more @schema@.locked;
    v_got @schema@.locked;
    v_take tid[] := '{}';
    v_die tid[] := '{}';
    v_stuck tid[]; -- what waits for a message that somebody has locked: it cannot be parked
    v_all tid[]; -- what could be taken
    v_left boolean := false; -- there is more than was taken
    v_sweep boolean;
    v_sweeping boolean; -- in the next round
    v_policy record;
    v_parked int;
    v_extended boolean;
    v_runs boolean;
    v_count int;
    v_round int := 0;
    v_spans record; -- of the ids taken, where there are many partitions
    v_plain boolean; -- no runs, so there is nothing to keep together
begin
    v_fine := @schema@.check_isolation()
        and @schema@.check_claim(worker, "limit", lease, claim.max_attempts, run, retry_base, retry_cap, max_bytes);
    if cardinality(only_namespaces) is distinct from cardinality(only_topics)
            or cardinality(skip_namespaces) is distinct from cardinality(skip_topics)
            or cardinality(rule_namespaces) is distinct from cardinality(rule_topics)
            or cardinality(rule_namespaces) is distinct from cardinality(rule_skips) then
        raise exception 'the arrays of namespaces and topics have different lengths' using errcode = 'OB001',
            hint = 'A lane is a namespace and a topic: give as many of the one as of the other.';
    end if;

    if current_setting('app.current_tenant_id', true) <> '' then
        tenant := @schema@.tenant_for(tenant);
    end if;

    v_scope.open := claim.namespace is null and topics is null and only_namespaces is null and skip_namespaces is null
        and rule_namespaces is null and not exists (select from @schema@.pause p where p.sink is null);
    if not v_scope.open then
        if exists (select from @schema@.pause p where p.namespace is null and p.sink is null and p.topic is null) then
            v_kept := set_config('outbox.more', '', true);
            return;
        end if;
        v_scope := @schema@.scope_of(claim.namespace, topics, only_namespaces, only_topics, skip_namespaces,
            skip_topics, rule_namespaces, rule_topics, rule_skips, few);
    end if;

    if tenant is null then
        v_memory := nullif(current_setting(memory_name, true), '')::@schema@.memory;
        if v_memory.scope is distinct from v_name or v_memory.swept_at > v_now + interval '1 min' then
            v_memory := null; -- of another scope, or of a clock that was ahead
        end if;
        if v_scope.open and v_memory.stepped then
            v_memory.swept_at := null; -- what was stepped over may go now
            v_memory.walking := false;
        end if;
        v_wide := coalesce(v_memory.wide_until > v_now or v_memory.walking, false) and v_scope.lanes is null;
        if not v_wide and cardinality(v_memory.marks) > 0 and v_memory.marks[1].lane is null then
            v_memory.marks := null;
            v_memory.swept_at := null;
        end if;
        if not v_scope.open and not v_wide then
            select array_agg(m) filter (where not x.allowed), array_agg(m order by m.ordinality) filter (where x.allowed)
              into v_aside, v_memory.marks
              from (select row (m.lane, m.prio, m.shard, m.low, m.high)::@schema@.mark as m, m.lane, m.ordinality
                      from unnest(v_memory.marks) with ordinality m) m,
                   lateral (select coalesce(@schema@.allows(v_scope, m.lane), false) as allowed offset 0) x;
        end if;
    end if;
    -- What is in the log comes into the queue first, unless the caller takes it from there. It is due now: behind all marks.
    if claim.admit then
        v_fine := @schema@.admit(greatest("limit", 500), v_now) > 0;
    end if;
    v_depth := least(coalesce(v_memory.depth, 1), run, "limit");
    v_width := "limit" / v_depth;
    v_steps := greatest(5 * v_width, 500);
    v_sweep := not coalesce(v_now < v_memory.swept_at + case when v_memory.walking then interval '10 s'
        when v_memory.busy then greatest('0.5 s', v_memory.cost * 20)
        when v_memory.dear then v_memory.cost * 20 end, false);

    loop
        v_round := v_round + 1;
        v_parked := 0;
        v_die := '{}';
        if tenant is not null then
            v_marks := @schema@.tenant_probes(tenant, v_scope, 200, v_now);
        elsif v_sweep then
            v_step := @schema@.sweep(v_scope, few, v_now, v_wide, v_memory);
            v_wide := v_step.wide;
            v_calm := v_step.calm;
            v_memory := v_step.memory;
            v_memory.scope := v_name;
            v_marks := v_memory.marks;
        else
            v_marks := coalesce(v_memory.marks, '{}');
        end if;
        v_bounded := false;
        if v_wide and not v_scope.open and coalesce(v_memory.stepped, true) then
            v_marks := @schema@.bounded(v_marks, v_steps, v_now);
            v_bounded := exists (select from unnest(v_marks) m where m.high is not null);
        end if;

        v_first := null;
        if tenant is null and v_round = 1 then
            v_step := @schema@.lock_fairly(v_marks, v_scope, v_width, claim.max_attempts, v_now, v_memory);
            v_memory := v_step.memory;
            v_first := v_step.got;
        end if;

        v_read := case when v_wide and not v_scope.open then @schema@.entries_read() end;
        v_got := @schema@.lock_due(v_marks, v_scope, tenant, v_stuck || v_first.tids,
            v_width - coalesce(cardinality(v_first.tids), 0), claim.max_attempts, v_now);
        if v_bounded then
            v_last := (select max(p) from unnest(v_got.probes) p);
        end if;
        if v_first.tids is not null then
            v_got := @schema@.merge_locked(v_got, v_first);
        end if;
        v_count := cardinality(v_got.tids);
        v_memory.stepped := v_read is not null and (v_bounded and v_count < v_width
            or @schema@.entries_read() - v_read > v_steps);
        v_memory.walking := v_bounded;
        if v_bounded then
            v_memory.walking := v_count < v_width or exists (
                select from unnest(v_marks) with ordinality m
                 where m.high is not null and m.ordinality < v_last and m.ordinality <> all (v_got.probes));
            v_walked_on := v_walked_on or v_memory.walking;
        end if;

        v_take := v_got.tids;
        if v_got.keyed and not v_got.loose then
            v_take := '{}';
        elsif v_got.keyed or v_got.exhausted then
            select e.take, e.die into v_take, v_die from @schema@.split_exhausted(v_got.tids, claim.max_attempts, v_now) e;
        end if;
        v_extended := false;
        v_runs := false;
        v_crowd := 0;
        if v_got.keyed then
            select o.take, o.die, o.parked, o.crowd, o.extended, o.runs
              into v_take, v_die, v_parked, v_crowd, v_extended, v_runs
              from @schema@.order_keys(v_got.tids, v_scope, "limit" - cardinality(v_take), run, prefetch,
                       worker, claim.max_attempts, v_now, v_take, v_die) o;
        end if;
        v_crowded := v_crowded or v_crowd > v_count / 8;
        v_found := cardinality(v_take);
        -- Depth is for keys: what their runs leave of the batch is for messages without one.
        if v_depth > 1 and v_found < "limit" then
            v_more := @schema@.lock_due(array(
                select row (m.lane, m.prio, m.shard, case when m.shard = -1 then m.low else 'infinity' end,
                            m.high)::@schema@.mark
                  from unnest(v_marks) with ordinality m order by m.ordinality),
                v_scope, null, v_got.tids, "limit" - v_found, claim.max_attempts, v_now);
            select v_take || e.take, v_die || e.die into v_take, v_die
              from @schema@.split_exhausted(v_more.tids, claim.max_attempts, v_now) e;
            v_got := @schema@.merge_locked(v_got, v_more);
        end if;
        v_all := null;
        if v_got.suspect or v_got.bytes > max_bytes or (v_extended and max_bytes is not null) then
            v_all := v_take;
            select f.kept, f.suspect into v_take, v_memory.suspect
              from @schema@.fit(v_all, max_bytes, not coalesce(v_memory.suspect, false), claim.max_attempts) f;
            v_left := cardinality(v_take) < cardinality(v_all);
        end if;
        if tenant is null and (v_count > 0 or v_bounded) then
            v_memory.marks := @schema@.next_marks(v_marks, v_got, v_count, v_width, v_last, case when v_left
                then array(select a from unnest(v_all) a where a <> all (v_take)) end, v_wide);
        end if;
        if v_got.expired or v_extended then
            perform @schema@.record_lost(v_take || v_die, v_now);
        end if;
        if cardinality(v_die) > 0 then
            perform @schema@.bury_claimed(v_die, v_now);
        end if;

        -- Everything locked was blocked or buried, or stepped over: look further. Nothing found from the marks on: sweep, or, where
        -- that is dear, look at what is new.
        exit when cardinality(v_take) > 0;
        v_sweeping := false;
        if v_count > 0 then
            if v_parked = 0 and cardinality(v_die) = 0 then
                exit when cardinality(v_stuck) >= 1000;
                v_stuck := v_stuck || v_got.tids;
            end if;
            v_width := least(v_width * 2, "limit");
        elsif v_bounded then
            v_steps := least(v_steps * 2, 10000);
        elsif v_fresh is null and not v_sweep and tenant is null and v_memory.dear and not v_walked_on then
            v_fresh := @schema@.fresh_probes(v_scope, v_wide, v_memory.swept_at, v_now);
            if cardinality(v_fresh) = 0 then
                exit when not v_memory.busy or v_wide;
                v_sweeping := true;
            else
                v_memory.marks := array(
                    select x.mark
                      from (select f as mark, f.prio, f.low from unnest(v_fresh) f
                            union all
                            select m, m.prio, m.low from unnest(v_memory.marks) m
                             where not exists (select from unnest(v_fresh) f
                                                where f.prio = m.prio and f.shard = m.shard and f.lane is not distinct from m.lane)) x
                     order by x.prio desc, x.low);
            end if;
        else
            exit when v_sweep or tenant is not null or not v_memory.busy or v_walked_on
                or v_wide and v_memory.dear;
            v_sweeping := true;
        end if;
        v_sweep := v_sweeping;
        if v_round > 4 and clock_timestamp() > v_start + interval '0.2 s' then -- not at once: a slow machine gets on, too
            v_left := true;
            exit;
        end if;
        v_now := clock_timestamp();
    end loop;

    -- A walk over what may not be taken goes on with the next claim. It is part of the cost of its sweep: otherwise the next
    -- sweep would begin it anew before it comes to its end, and nothing behind would ever be found.
    if v_walked_on then
        v_left := v_left or v_memory.walking;
        v_memory.dear := true;
        v_memory.cost := least(v_memory.cost + (clock_timestamp() - v_start), interval '0.5 s');
        v_memory.wide_until := greatest(v_memory.wide_until, v_memory.swept_at + v_memory.cost * 20);
    end if;
    v_kept := set_config('outbox.more', case when v_left then 'on' else '' end, true);
    if tenant is null then
        v_memory.full := v_count >= v_width or v_left;
        v_memory.busy := v_memory.full and "limit" >= 100;
        v_memory.depth := case when v_crowded then v_depth * 2
                               when v_found <= "limit" / 2 then greatest(v_depth / 2, 1) else v_depth end;
        if cardinality(v_calm) > 0 or cardinality(v_aside) > 0 then
            v_memory.marks := array(select m from unnest(v_memory.marks || v_calm || v_aside) m order by m.prio desc, m.low);
        end if;
        v_kept := set_config(memory_name, v_memory::text, false);
    end if;
    if cardinality(v_take) = 0 then
        return;
    end if;

    v_policy := @schema@.retry_policy(v_take, claim.retry_base, claim.retry_cap);
    v_plain := not (v_runs or v_extended);
    -- Step 5. With many partitions the plan is made for this batch: see spans_of. What v_plain rules out is not in it.
    if exists (select from @schema@.period offset 48) then
        v_spans := @schema@.spans_of(array(select q.id from @schema@.queue q where q.ctid = any (v_take) order by q.id));
        v_kept := set_config('plan_cache_mode', 'force_custom_plan', true); -- to the end of this function
        return query
            with leased as (
                update @schema@.queue q
                   set until = v_now + lease, since = v_now, holder = worker, attempts = q.attempts + 1,
                       spent = q.spent + 1, lost = q.lost + (q.until is not null)::int, ceiling = least(q.max_attempts, claim.max_attempts),
                       retry_base = @schema@.policy_for(v_policy.by_lane, q.lane, 0, v_policy.base),
                       retry_cap = @schema@.policy_for(v_policy.by_lane, q.lane, 1, v_policy.cap), parked = false
                 where q.ctid = any (v_take)
                returning q.ctid, q.id, q.attempts, q.spent, q.lost, q.deferred, q.ceiling, q.retry_base, q.retry_cap, q.redriven, q.until, q.prio, q.due, q.sid, q.seq
            ), sorted as (
                select * from leased q
                window run as (partition by q.sid)
                 order by case when v_plain or q.sid is null then q.prio else max(q.prio) over run end desc,
                          case when v_plain or q.sid is null then q.due else min(q.due) over run end, q.sid, q.seq
            )
            select q.id, q.attempts::bigint, m.namespace, m.topic, m.tenant_id, m.key, m.seq, m.dedupe_key, m.subject, m.recipient,
                   m.headers, m.correlation_id, m.payload, m.body, m.content_type, m.priority::int, q.attempts, q.spent::int,
                   q.ceiling::int, q.redriven, m.created_at, v_now, q.until, m.expires_at, q.ctid, m.encoding,
                   q.sid, q.deferred::int, q.lost::int, m.max_attempts is not null, q.retry_base, q.retry_cap
              from sorted q
             cross join lateral (select * from @schema@.message x
                                  where x.id = q.id and @schema@.within(x.id, v_spans.low, v_spans.high)
                                 union all
                                 select * from @schema@.message_kept x where x.id = q.id limit 1) m;
        return;
    end if;
    -- The same twice more, without spans, and without runs: spans in the plan cost a claim a tenth more, where they are not
    -- needed, and only a batch with runs pays for keeping each together.
    if v_plain then
        return query
            with leased as (
                update @schema@.queue q
                   set until = v_now + lease, since = v_now, holder = worker, attempts = q.attempts + 1,
                       spent = q.spent + 1, lost = q.lost + (q.until is not null)::int, ceiling = least(q.max_attempts, claim.max_attempts),
                       retry_base = @schema@.policy_for(v_policy.by_lane, q.lane, 0, v_policy.base),
                       retry_cap = @schema@.policy_for(v_policy.by_lane, q.lane, 1, v_policy.cap)
                 where q.ctid = any (v_take)
                returning q.ctid, q.id, q.attempts, q.spent, q.lost, q.deferred, q.ceiling, q.retry_base, q.retry_cap, q.redriven, q.until, q.prio, q.due, q.sid
            ), sorted as (
                select * from leased q order by q.prio desc, q.due
            )
            select q.id, q.attempts::bigint, m.namespace, m.topic, m.tenant_id, m.key, m.seq, m.dedupe_key, m.subject, m.recipient,
                   m.headers, m.correlation_id, m.payload, m.body, m.content_type, m.priority::int, q.attempts, q.spent::int,
                   q.ceiling::int, q.redriven, m.created_at, v_now, q.until, m.expires_at, q.ctid, m.encoding,
                   q.sid, q.deferred::int, q.lost::int, m.max_attempts is not null, q.retry_base, q.retry_cap
              from sorted q -- a nested loop: the order stays
             cross join lateral (select * from @schema@.message x where x.id = q.id
                                 union all
                                 select * from @schema@.message_kept x where x.id = q.id limit 1) m;
        return;
    end if;
    return query
        with leased as (
            update @schema@.queue q
               set until = v_now + lease, since = v_now, holder = worker, attempts = q.attempts + 1,
                   spent = q.spent + 1, lost = q.lost + (q.until is not null)::int, ceiling = least(q.max_attempts, claim.max_attempts),
                   retry_base = @schema@.policy_for(v_policy.by_lane, q.lane, 0, v_policy.base),
                   retry_cap = @schema@.policy_for(v_policy.by_lane, q.lane, 1, v_policy.cap), parked = false
             where q.ctid = any (v_take)
            returning q.ctid, q.id, q.attempts, q.spent, q.lost, q.deferred, q.ceiling, q.retry_base, q.retry_cap, q.redriven, q.until, q.prio, q.due, q.sid, q.seq
        ), sorted as (
            select * from leased q
            window run as (partition by q.sid)
             order by case when q.sid is null then q.prio else max(q.prio) over run end desc,
                      case when q.sid is null then q.due else min(q.due) over run end, q.sid, q.seq
        )
        select q.id, q.attempts::bigint, m.namespace, m.topic, m.tenant_id, m.key, m.seq, m.dedupe_key, m.subject, m.recipient,
               m.headers, m.correlation_id, m.payload, m.body, m.content_type, m.priority::int, q.attempts, q.spent::int,
               q.ceiling::int, q.redriven, m.created_at, v_now, q.until, m.expires_at, q.ctid, m.encoding,
               q.sid, q.deferred::int, q.lost::int, m.max_attempts is not null, q.retry_base, q.retry_cap
          from sorted q
         cross join lateral (select * from @schema@.message x where x.id = q.id
                             union all
                             select * from @schema@.message_kept x where x.id = q.id limit 1) m;
end
$$;
