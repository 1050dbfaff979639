-- Relays: heartbeats, settings changed while they run, and cheap counts of the queue.

-- A relay's heartbeat. True: it is the leader, that is, the oldest running relay, which reports what would otherwise be
-- reported by all. Takes no lock that outlives the call, so it works behind a pooler. The state 'stopped' is the last
-- beat. Also deletes the rows of relays that stopped long ago.
create function @schema@.beat(worker text, host text default null, pid int default null, version text default null,
    state text default 'running', every interval default '10 s', info jsonb default null) returns boolean
    language plpgsql security definer
    set search_path = pg_catalog, pg_temp
as $$
#variable_conflict use_column
declare
    v_now constant timestamptz := clock_timestamp();
begin
    if coalesce(beat.worker, '') = '' then
        raise exception '"worker" is missing' using errcode = 'OB001', hint = 'Give the name under which this relay claims.';
    elsif beat.every is null or beat.every not between '@heartbeat_min@ us' and '@heartbeat_max@ us' then
        raise exception '"every" is %', coalesce(beat.every::text, 'missing') using errcode = 'OB001',
            hint = 'It takes @heartbeat_range@: the time between two heartbeats.';
    end if;
    if beat.state = 'stopped' then
        delete from @schema@.relay r where r.worker = beat.worker;
        return false;
    end if;
    insert into @schema@.relay as r (worker, host, pid, version, state, started_at, seen_at, every, info)
    values (beat.worker, beat.host, beat.pid, beat.version, coalesce(beat.state, 'running'), v_now, v_now, beat.every,
            beat.info)
    on conflict (worker) do update
       set host = excluded.host, pid = excluded.pid, version = excluded.version, state = excluded.state,
           started_at = case when r.pid is distinct from excluded.pid or r.host is distinct from excluded.host
                             then excluded.started_at else r.started_at end,
           seen_at = excluded.seen_at, every = excluded.every, info = excluded.info;
    delete from @schema@.relay r where r.seen_at < v_now - greatest(interval '1 day', 10 * r.every)
        or r.seen_at > v_now + interval '1 h'; -- by a clock that was ahead
    return beat.worker is not distinct from (select r.worker from @schema@.relay r
        where r.seen_at > v_now - 3 * r.every and r.state <> 'stopping' order by r.started_at, r.worker limit 1);
end
$$;

-- Changes a setting of the relays while they run (T5); value null goes back to what their configuration says. Relays
-- check every few seconds. The change is recorded as an act.
create function @schema@.tune(name text, value text, actor text default null, reason text default null) returns boolean
    language plpgsql security definer
    set search_path = pg_catalog, pg_temp
as $$
#variable_conflict use_column
declare
    v_kind constant text := case when name in ('poll', 'batch', 'enabled') then name
        else substring(name from '^sink\.[A-Za-z0-9_.-]{1,64}\.(rate|concurrency)$') end;
    v_value text := lower(value);
    v_number bigint := substring(value from '^[0-9]{1,9}');
begin
    perform @schema@.check_no_tenant();
    if v_kind is null then
        raise exception 'unknown setting "%"', coalesce(left(name, 64), '') using errcode = 'OB001',
            hint = 'Settings: poll, batch, enabled, sink.NAME.rate, sink.NAME.concurrency.';
    end if;
    if v_kind = 'enabled' then
        v_value := case when v_value in ('on', 'true', 'yes', '1') then 'on'
                        when v_value in ('off', 'false', 'no', '0') then 'off' end;
    elsif v_kind = 'rate' then
        v_value := case when v_value ~ '^[0-9]{1,9}$' then v_value || '/s' else v_value end;
    end if;
    if value is not null and not coalesce(case v_kind
            when 'enabled' then v_value is not null
            when 'batch' then v_value ~ '^[0-9]{1,9}$' and v_number between @claim_min@ and @claim_max@
            when 'concurrency' then v_value ~ '^[0-9]{1,9}$' and v_number between @concurrency_min@ and @concurrency_max@
            when 'rate' then v_value = 'off' or (v_value ~ '^[0-9]{1,9}/[smh]$' and v_number >= 1)
            when 'poll' then v_value ~ '^[0-9]{1,9}(ms|s|m|h)$' and v_number * case substring(v_value from '[a-z]+$')
                when 'ms' then 1000 when 's' then 1000000 when 'm' then 60000000 else 3600000000 end between @poll_min@ and @poll_max@
            end, false) then
        raise exception 'the setting "%" does not take "%"', name, left(value, 64) using errcode = 'OB001',
            hint = 'It takes ' || case v_kind when 'enabled' then 'on or off' when 'batch' then '@claim_range@'
                when 'concurrency' then '@concurrency_range@' when 'rate' then 'a rate such as 100/s, 600/m or 5000/h, or off'
                else '@poll_range@, e.g. 500ms' end || '.';
    end if;
    if value is null then
        delete from @schema@.tuning t where t.name = tune.name;
    else
        insert into @schema@.tuning as t (name, value, actor, reason)
        values (tune.name, v_value, coalesce(tune.actor, session_user), tune.reason)
        on conflict (name) do update
           set value = excluded.value, at = excluded.at, actor = excluded.actor, reason = excluded.reason
         where t.value <> excluded.value;
    end if;
    if not found then
        return false;
    end if;
    perform @schema@.record(actor, 'tune', reason, null, null, jsonb_build_object('name', name, 'value',
        case when value is not null then v_value end));
    return true;
end
$$;

-- The age in seconds of the message that has been due longest, for every namespace that has one: a loose scan of the
-- index, one step per (lane, priority, shard), as claim does it.
create function @schema@.oldest_due(now_is timestamptz) returns table (namespace text, age double precision)
    language sql stable
as $$
    with recursive p(lane, prio, shard) as (
        select * from (select q.lane, q.prio, q.shard from @schema@.queue q where not q.parked
                order by q.lane, q.prio, q.shard, q.due limit 1) first
        union all
        select n.* from p, lateral (select q.lane, q.prio, q.shard from @schema@.queue q
                where not q.parked and (q.lane, q.prio, q.shard) > (p.lane, p.prio, p.shard)
                order by q.lane, q.prio, q.shard, q.due limit 1) n
    )
    select l.namespace, extract(epoch from now_is - min(f.due))::double precision
      from p,
           lateral (select q.due from @schema@.queue q where q.lane = p.lane and q.prio = p.prio and q.shard = p.shard
                and not q.parked and (q.until is null or q.until <= now_is) and q.due <= now_is
                order by q.due limit 1) f,
           lateral (select x.namespace from @schema@.lane x where x.id = p.lane limit 1) l
     group by l.namespace
$$;

-- What is in the log, of a lane.
create type @schema@.log_count as (lane bigint, pending double precision, due double precision, processing bigint, stuck bigint,
    oldest timestamptz, estimated boolean);

-- Counts of the queue and the log, at a cost that does not grow with them. The first row is the total, with a null namespace; then
-- up to max_namespaces, the fullest first. Exact while the queue's table has no more than max_pages pages, and the log few enough
-- for log_sample. Beyond that what waits for its turn in the queue's index is still counted up to max_count;
-- the rest is an estimate, from a sample of max_pages pages, and in the log from the first of each shard (log_sample);
-- `estimated` says so. The oldest age is exact in the queue; in the log it is that of the oldest among those first ones, which are
-- in the order of their transactions, and that is nearly the order of their times.
create function @schema@.gauges(max_pages int default 4096, max_count int default 10000, max_namespaces int default 20)
    returns table (namespace text, pending bigint, due bigint, processing bigint, stuck bigint, parked bigint,
        blocked_keys bigint, dead bigint, oldest_due_s double precision, estimated boolean, table_bytes bigint,
        dead_tuples bigint, repairs bigint, partitions bigint)
    language plpgsql stable security definer
    set search_path = pg_catalog, pg_temp
    set enable_bitmapscan = off -- it would read all of the log first, for a few rows
as $$
#variable_conflict use_column
declare
    v_now constant timestamptz := clock_timestamp();
    v_bytes constant bigint := pg_relation_size('@schema@.queue');
    v_pages constant bigint := v_bytes / current_setting('block_size')::bigint;
    v_percent constant real := least(100, 100.0 * max_pages / greatest(v_pages, 1));
    v_weight constant double precision := 100 / v_percent;
    v_walk boolean := false; -- what is not parked was counted one by one
    v_dead bigint;
    v_dead_weight double precision := 1;
    v_log constant @schema@.log_count[] := array(
        select row (w.lane, sum(w.weight), sum(w.weight) filter (where w.due <= v_now), 0, 0,
                   min(w.due) filter (where w.due <= v_now), bool_or(w.estimated))::@schema@.log_count
          from @schema@.log_sample w group by w.lane
        union all
        select row (t.lane, 0, 0, count(*), count(*) filter (where t.until <= v_now), null, false)::@schema@.log_count
          from @schema@.log_taken t group by t.lane);
begin
    perform @schema@.check_no_tenant();
    if v_percent < 100 and pg_stat_get_dead_tuples('@schema@.queue'::regclass) < 50 * max_count then
        select count(*) <= max_count into v_walk from (select from @schema@.queue q where not q.parked
            order by q.lane, q.prio, q.shard, q.due limit max_count + 1) w;
    end if;
    select count(*) into v_dead from (select from @schema@.dead d limit max_count + 1) w;
    if v_dead > max_count then
        v_dead_weight := greatest(1, (select c.reltuples from pg_class c where c.oid = '@schema@.dead'::regclass) / v_dead);
    end if;
    return query
    with item as (
        select q.lane, q.until, q.due, q.parked, q.held, q.sid, q.attempts, v_weight as weight
          from @schema@.queue q tablesample system (v_percent) where not v_walk or q.parked
        union all
        select w.*, 1 from (select q.lane, q.until, q.due, q.parked, q.held, q.sid, q.attempts from @schema@.queue q
             where not q.parked and v_walk order by q.lane, q.prio, q.shard, q.due limit max_count) w
    ), by_lane as (
        select i.lane,
               sum(weight) filter (where i.until is null and not i.held) as pending,
               sum(weight) filter (where i.until is null and not i.parked and i.due <= v_now) as due,
               sum(weight) filter (where i.until is not null) as processing,
               sum(weight) filter (where i.until <= v_now) as stuck,
               sum(weight) filter (where i.parked and not i.held) as parked,
               -- A key stands still while its first message waits for another attempt, or for an operator.
               sum(weight) filter (where i.held or (i.sid is not null and i.until is null and not i.parked
                   and i.attempts > 0 and i.due > v_now)) as blocked
          from item i group by i.lane
        union all
        select c.lane, c.pending, c.due, c.processing, c.stuck, 0, 0 from unnest(v_log) c
    ), by_namespace as (
        select l.namespace, sum(b.pending) as pending, sum(b.due) as due, sum(b.processing) as processing,
               sum(b.stuck) as stuck, sum(b.parked) as parked, sum(b.blocked) as blocked, 0::double precision as dead,
               null::double precision as oldest
          from by_lane b, lateral (select x.namespace from @schema@.lane x where x.id = b.lane limit 1) l
         group by l.namespace
        union all
        select w.namespace, 0, 0, 0, 0, 0, 0, count(*) * v_dead_weight, null
          from (select d.namespace from @schema@.dead d limit max_count) w group by w.namespace
        union all
        select o.namespace, 0, 0, 0, 0, 0, 0, 0, o.age from @schema@.oldest_due(v_now) o
        union all
        select l.namespace, 0, 0, 0, 0, 0, 0, 0, extract(epoch from v_now - c.oldest)
          from unnest(v_log) c, lateral (select x.namespace from @schema@.lane x where x.id = c.lane limit 1) l
    ), total as (
        select n.namespace, coalesce(round(sum(n.pending)), 0)::bigint as pending,
               coalesce(round(sum(n.due)), 0)::bigint as due, coalesce(round(sum(n.processing)), 0)::bigint as processing,
               coalesce(round(sum(n.stuck)), 0)::bigint as stuck, coalesce(round(sum(n.parked)), 0)::bigint as parked,
               coalesce(round(sum(n.blocked)), 0)::bigint as blocked, coalesce(round(sum(n.dead)), 0)::bigint as dead,
               coalesce(max(n.oldest), 0) as oldest
          from by_namespace n group by grouping sets ((), (n.namespace))
    )
    select t.namespace, t.pending, t.due, t.processing, t.stuck, t.parked, t.blocked, t.dead, t.oldest,
           v_percent < 100 or v_dead > max_count or exists (select from unnest(v_log) c where c.estimated),
           case when t.namespace is null then v_bytes end,
           case when t.namespace is null then pg_stat_get_dead_tuples('@schema@.queue'::regclass) end,
           case when t.namespace is null then (select case when r.is_called then r.last_value else 0 end
                                                 from @schema@.repair r) end,
           case when t.namespace is null then (select count(*) from @schema@.period) end
      from total t order by t.namespace is not null, t.pending desc, t.dead desc, t.namespace limit max_namespaces + 1;
end
$$;

-- What is wrong with the log, and what to do, for `outbox doctor`.
create function @schema@.wrong_log() returns table (problem text, fix text)
    language sql stable security definer
    set search_path = pg_catalog, pg_temp
as $$
    select 'the log has the transaction numbers of another server: the database was restored from a dump',
           format('start a relay, which puts it right by itself, or: select %I.rebase()', @schema_text@)
     where exists (select from generate_series(-1, 7) s(shard)
                    cross join lateral (select k.cluster, k.upto from @schema@.log_window k where k.shard = s.shard
                                         order by k.shard desc, k.id desc limit 1) k
                    where k.cluster <> @schema@.cluster_id()
                       or pg_snapshot_xmax(k.upto) > pg_snapshot_xmax(pg_current_snapshot()))
    union all
    select format('%s window%s of the log, %s messages, not settled in twice the time of the lease; the oldest was taken %s s ago by %s',
               count(*), case when count(*) > 1 then 's' end, sum(k.remaining),
               extract(epoch from clock_timestamp() - min(k.taken_at))::bigint, (array_agg(k.holder order by k.taken_at))[1]),
           'start a relay: it delivers these messages again'
      from @schema@.log_window k
     where k.open and clock_timestamp() - k.taken_at > 2 * (k.until - k.taken_at)
       and not exists (select from @schema@.relay r where r.seen_at > clock_timestamp() - 3 * r.every)
    having count(*) > 0
$$;

create view @schema@.relays with (security_barrier) as
select r.worker, r.host, r.pid, r.version, r.state, r.started_at, r.seen_at,
       r.seen_at > clock_timestamp() - 3 * r.every as alive, r.info
  from @schema@.relay r
 where (select @schema@.sees_all());

-- The sinks of the relays that run, one row for each relay and sink. What a relay wrote is taken as it is: texts.
create view @schema@.sinks with (security_barrier) as
select r.worker as relay, s.sink->>'name' as name, s.sink->>'kind' as kind, s.sink->>'breaker' as breaker, s.sink->>'cause' as cause,
       (s.sink->>'since')::timestamptz as since, (s.sink->>'next_probe')::timestamptz as next_probe, s.sink->>'code' as code, s.sink->>'error' as error,
       (s.sink->>'error_at')::timestamptz as error_at, (s.sink->>'success_at')::timestamptz as success_at, (s.sink->>'failed')::bigint as failed,
       (s.sink->>'in_flight')::int as in_flight, (s.sink->>'rate')::double precision as rate, (s.sink->>'concurrency')::int as concurrency,
       s.sink->>'rate_limit' as rate_limit, (s.sink->>'limited_until')::timestamptz as limited_until, (s.sink->>'paused')::boolean as paused
  from @schema@.relay r
 cross join lateral jsonb_array_elements(case when jsonb_typeof(r.info->'sinks') = 'array' then r.info->'sinks' else '[]' end) s(sink)
 where r.seen_at > clock_timestamp() - 3 * r.every and (select @schema@.sees_all());

create view @schema@.pauses with (security_barrier) as
select p.namespace, p.topic, p.sink, p.at, p.actor, p.reason
  from @schema@.pause p
 where (select @schema@.sees_all());

create view @schema@.tunings with (security_barrier) as
select t.name, t.value, t.at, t.actor, t.reason
  from @schema@.tuning t
 where (select @schema@.sees_all());

-- Why a message is not delivered yet (N6): explain(id). It reads the views, so everybody sees what they may see of messages; what keeps
-- a topic from delivery comes from obstacles(), which tells a tenant no names, reasons or addresses.

-- Whether the relay that claims by this name is alive: relays append numbers to their names.
create function @schema@.relay_alive(holder text) returns boolean
    language sql stable security definer
    set search_path = pg_catalog, pg_temp
as $$
    select exists (select from @schema@.relay r where (r.worker = holder or starts_with(holder, r.worker || '.'))
                      and r.seen_at > clock_timestamp() - 3 * r.every)
$$;

-- The first message of its key that is still in the queue, if another is before it; null: none.
create function @schema@.head_of(id uuid) returns uuid
    language sql stable security definer
    set search_path = pg_catalog, pg_temp
as $$
    select h.id from @schema@.stored m
      left join @schema@.queue q on q.id = m.id
     cross join lateral (select x.id from @schema@.queue x where x.sid = coalesce(q.sid, m.sid) and x.seq < m.seq order by x.seq limit 1) h
     where m.id = head_of.id and (@schema@.current_tenant() is null or m.tenant_id = @schema@.current_tenant())
$$;

-- What keeps messages of a topic, with these headers, from delivery: pauses, relays, routes, sinks.
create function @schema@.obstacles(namespace text, topic text, headers jsonb)
    returns table (state text, reason text, facts jsonb, command text)
    language plpgsql stable security definer
    set search_path = pg_catalog, pg_temp
as $$
#variable_conflict use_column
declare
    v_now constant timestamptz := clock_timestamp();
    v_open constant boolean := @schema@.current_tenant() is null;
begin
    return query
    with alive as (
        select r.worker, r.info, coalesce(r.info->>'enabled', 'true') = 'true' as enabled,
               coalesce(r.info->>'cut', 'false') = 'true' or r.info->'routes' is null as unsure,
               (select x.route->>'sink'
                  from jsonb_array_elements(case when jsonb_typeof(r.info->'routes') = 'array' then r.info->'routes' else '[]' end)
                       with ordinality x(route, n)
                 where obstacles.namespace like @schema@.like_of(x.route->>'namespace') and obstacles.topic like @schema@.like_of(x.route->>'topic')
                   and not exists (select from jsonb_each_text(coalesce(x.route->'headers', '{}')) h
                                    where not coalesce(obstacles.headers->>h.key like @schema@.like_of(h.value), false))
                 order by x.n limit 1) as sink
          from @schema@.relay r where r.seen_at > v_now - 3 * r.every
    ), found(n, state, reason, facts, command) as (
        select 1, 'paused', format('%s is paused by %s since %s%s',
                   case when p.namespace is null then 'everything' when p.topic is null then 'the namespace ' || p.namespace
                        else 'the topic ' || p.namespace || '/' || p.topic end, p.actor, p.at, coalesce(': ' || p.reason, '')),
               jsonb_build_object('namespace', p.namespace, 'topic', p.topic, 'actor', p.actor, 'since', p.at, 'why', p.reason),
               concat('outbox resume', ' --namespace ' || p.namespace, ' --topic ' || p.topic)
          from @schema@.pause p where p.sink is null and (p.namespace is null
               or (p.namespace = obstacles.namespace and (p.topic is null or p.topic = obstacles.topic))
               or (obstacles.namespace like p.like_namespace and obstacles.topic like p.like_topic))
        union all
        select 2, 'disabled', format('deliveries are switched off (enabled off) by %s since %s%s', t.actor, t.at, coalesce(': ' || t.reason, '')),
               jsonb_build_object('actor', t.actor, 'since', t.at, 'why', t.reason), 'outbox tune enabled --reset'
          from @schema@.tuning t where t.name = 'enabled' and t.value = 'off'
        union all
        select 3, 'no_relay', 'no relay is running', jsonb_build_object('last_seen', (select max(r.seen_at) from @schema@.relay r)), 'outbox run'
         where not exists (select from alive)
        union all
        select 4, 'disabled', 'the relays that run are disabled in their configuration', jsonb_build_object('relays', jsonb_agg(a.worker)),
               'outbox tune enabled on'
          from alive a having count(*) > 0 and not bool_or(a.enabled)
               and not exists (select from @schema@.tuning t where t.name = 'enabled')
        union all
        select 5, 'no_route', format('no running relay has a route for %s/%s with its headers', obstacles.namespace, obstacles.topic),
               jsonb_build_object('relays', jsonb_agg(a.worker)), 'add a route to the configuration of a relay, and reload it'
          from alive a having count(*) > 0 and count(a.sink) = 0 and not bool_or(a.unsure)
        union all
        select 6, 'sink_paused', format('its sink %s is paused by %s since %s%s', p.sink, p.actor, p.at, coalesce(': ' || p.reason, '')),
               jsonb_build_object('sink', p.sink, 'actor', p.actor, 'since', p.at, 'why', p.reason), 'outbox resume --sink ' || p.sink
          from @schema@.pause p where p.sink in (select a.sink from alive a)
        union all
        select 7, 'breaker_open', format('deliveries to its sink %s are suspended at the relay %s since %s (%s); last error: %s; next probe: %s', s.name,
                   s.relay, s.since, s.cause, coalesce(concat_ws(': ', s.code, s.error), 'none'), coalesce(s.next_probe::text, 'now')),
               jsonb_build_object('sink', s.name, 'relay', s.relay, 'since', s.since, 'cause', s.cause, 'code', s.code, 'error', s.error,
                   'next_probe', s.next_probe, 'failed', s.failed), 'fix the receiver; then the next probe resumes deliveries'
          from @schema@.sinks s join alive a on a.worker = s.relay and a.sink = s.name where s.breaker <> 'closed'
        union all
        select 8, 'limited', format('the receiver of its sink %s asked to wait until %s', s.name, s.limited_until),
               jsonb_build_object('sink', s.name, 'relay', s.relay, 'until', s.limited_until), 'wait, or ask the receiver for a higher limit'
          from @schema@.sinks s join alive a on a.worker = s.relay and a.sink = s.name where s.limited_until > v_now
    )
    select f.state, case when v_open then f.reason else replace(f.state, '_', ' ') end, case when v_open then f.facts end,
           case when v_open then f.command end
      from found f order by f.n;
end
$$;

-- Why a message is not delivered yet: the first row says it, further rows what else is in the way; a message behind another of its key is
-- followed by the answer for that one (step 2). command: what changes it.
create function @schema@.explain(id uuid)
    returns table (step int, message_id uuid, state text, reason text, facts jsonb, command text)
    language plpgsql stable
    set search_path = pg_catalog, pg_temp
as $$
#variable_conflict use_column
declare
    v_now constant timestamptz := clock_timestamp();
    m record;
    a record;
    v_id uuid := explain.id;
    v_head uuid;
    v_own boolean;
begin
    for v_step in 1..2 loop
        select * into m from @schema@.messages x where x.id = v_id;
        if not found then
            return query select v_step, v_id, u.state, u.reason, u.facts, u.command from @schema@.explain_missing(v_id) u;
            return;
        end if;
        select * into a from @schema@.attempts t where t.message_id = v_id and t.outcome <> 'processing' order by t.attempt_no desc limit 1;
        v_own := true;
        if m.status = 'delivered' then
            return query select v_step, v_id, 'delivered', format('delivered at %s by %s, at attempt %s%s', m.delivered_at, a.worker, m.attempts,
                    coalesce('; the receiver calls it ' || a.reference, '')),
                jsonb_build_object('at', m.delivered_at, 'worker', a.worker, 'attempts', m.attempts, 'reference', a.reference, 'code', a.code),
                format('outbox redeliver %s', v_id);
            return;
        elsif m.status in ('dead', 'discarded') then
            return query select v_step, v_id,
                case when m.status = 'discarded' then 'discarded' when m.dead_reason = 'expired' then 'expired'
                     when m.last_code = 'schema' then 'schema_refused' else 'dead' end,
                case when m.status = 'discarded' and t.action = 'move' then format('moved to the topic %s by %s at %s, as %s%s', t.detail->>'topic', t.actor,
                         t.at, t.detail->>'as', coalesce(': ' || t.reason, ''))
                     when m.status = 'discarded' then format('discarded by %s at %s%s', t.actor, t.at, coalesce(': ' || t.reason, ''))
                     when m.dead_reason = 'skipped' then format('put aside by %s at %s (skip)%s', coalesce(t.actor, 'an operator'), t.at,
                         coalesce(': ' || t.reason, ''))
                     when m.dead_reason = 'expired' and t.action = 'expire' then format('expired by %s at %s%s', t.actor, t.at, coalesce(': ' || t.reason, ''))
                     when m.dead_reason = 'expired' then format('it expired at %s before it was delivered', m.expires_at)
                     when m.last_code = 'schema' then format('its payload does not fit the JSON Schema of its route: %s', m.last_error)
                     else format('dead after %s attempts (%s): %s', m.attempts, m.dead_reason, concat_ws(': ', m.last_code, m.last_error)) end,
                jsonb_build_object('dead_reason', m.dead_reason, 'code', m.last_code, 'error', m.last_error, 'attempts', m.attempts, 'since',
                    m.updated_at, 'actor', t.actor),
                case when m.status = 'discarded' and t.action = 'move' then format('outbox explain %s', t.detail->>'as')
                     when m.status = 'discarded' then format('outbox redeliver %s', v_id)
                     else format('outbox retry %s (or: outbox discard %s)', v_id, v_id) end
              from (select 1) one
              left join lateral (select t.actor, t.at, t.reason, t.action, t.detail from @schema@.acts t where t.message_id = v_id
                                    and t.action in ('discard', 'move', 'skip', 'expire') order by t.id desc limit 1) t on true;
            return;
        elsif m.status = 'processing' then
            return query select v_step, v_id, case when m.locked_until > v_now then 'leased' else 'lease_lost' end,
                case when m.locked_until > v_now
                     then format('%s has it since attempt %s began; its lease ends at %s', m.locked_by, m.attempts, m.locked_until)
                     else format('%s had it and was not heard of again; its lease ended at %s, and the next claim takes it', m.locked_by,
                         m.locked_until) end || case when r.alive then '; that relay is alive' else '; no relay of that name is alive' end,
                jsonb_build_object('worker', m.locked_by, 'until', m.locked_until, 'attempt', m.attempts, 'alive', r.alive),
                case when m.locked_until > v_now then 'wait until the lease ends' else 'outbox run' end
              from (select @schema@.relay_alive(m.locked_by) as alive) r;
            return;
        end if;
        v_head := case when v_step = 1 then @schema@.head_of(v_id) end;
        if v_head is not null then
            select * into a from @schema@.messages x where x.id = v_head;
            return query select v_step, v_id, case when a.status = 'dead' then 'held' else 'behind' end,
                case when a.status = 'dead' then format('its key is held by the dead letter %s', a.id)
                     else format('an earlier message of its key goes first: %s', coalesce(a.id::text, 'of another tenant')) end,
                jsonb_build_object('head', a.id, 'head_status', a.status, 'key', m.key, 'seq', m.seq, 'head_seq', a.seq),
                case when a.status = 'dead' then format('outbox retry %s (or: outbox skip %s)', a.id, a.id) else format('outbox explain %s', a.id) end;
            exit when a.id is null;
            v_id := v_head;
            continue;
        end if;
        if m.expires_at <= v_now then
            return query select v_step, v_id, 'expired', format('it expired at %s; the next claim makes it a dead letter', m.expires_at),
                jsonb_build_object('expires_at', m.expires_at), null::text;
        elsif m.next_attempt_at > v_now and m.attempts = 0 then
            return query select v_step, v_id, 'delayed', format('it is not due before %s, as its producer asked', m.next_attempt_at),
                jsonb_build_object('due', m.next_attempt_at), format('outbox retry %s', v_id);
        elsif m.next_attempt_at > v_now then
            return query select v_step, v_id, case a.outcome when 'limited' then 'limited' else 'backoff' end,
                format('attempt %s ended as %s%s; the next one is due at %s', m.attempts, coalesce(a.outcome, 'unknown'),
                    coalesce(': ' || nullif(concat_ws(': ', m.last_code, m.last_error), ''), ''), m.next_attempt_at),
                jsonb_build_object('due', m.next_attempt_at, 'attempts', m.attempts, 'spent', m.spent, 'max_attempts', m.max_attempts,
                    'outcome', a.outcome, 'code', m.last_code, 'error', m.last_error), format('outbox retry %s', v_id)
                    || case when m.key is not null then format(' (or: outbox skip %s)', v_id) else '' end;
        else
            v_own := false;
        end if;
        return query select v_step, v_id, o.state, o.reason, o.facts, o.command from @schema@.obstacles(m.namespace, m.topic, m.headers) o;
        if not found and not v_own then
            return query select v_step, v_id, 'due', format('it is due since %s, and nothing is in its way: the next claim takes it', m.next_attempt_at),
                jsonb_build_object('due', m.next_attempt_at), null::text;
        end if;
        return;
    end loop;
end
$$;

-- Of an id that no message has: what is known of it.
create function @schema@.explain_missing(id uuid) returns table (state text, reason text, facts jsonb, command text)
    language plpgsql stable
    set search_path = pg_catalog, pg_temp
as $$
#variable_conflict use_column
declare
    a record;
    v_text constant text := replace(explain_missing.id::text, '-', '');
    v_made constant timestamptz := case when substr(v_text, 13, 1) = '7'
        then to_timestamp(('x' || lpad(left(v_text, 12), 16, '0'))::bit(64)::bigint / 1000.0) end;
begin
    select * into a from @schema@.attempts t where t.message_id = explain_missing.id order by t.attempt_no desc limit 1;
    if found then
        return query select 'removed', format('retention removed it; its last attempt, %s, ended as %s at %s', a.attempt_no, a.outcome, a.completed_at),
            jsonb_build_object('attempts', a.attempt_no, 'outcome', a.outcome, 'at', a.completed_at, 'worker', a.worker), null::text;
        return;
    end if;
    select * into a from @schema@.acts t where t.action in ('erase_tenant', 'erase_subject') and t.at >= v_made order by t.id desc limit 1;
    if found then
        return query select 'erased', format('there is no such message any more, or there never was: %s erased some at %s (%s)', a.actor, a.at, a.action),
            jsonb_build_object('created_at', v_made, 'actor', a.actor, 'at', a.at, 'action', a.action), null::text;
        return;
    end if;
    return query select 'unknown', 'there is no such message: its transaction was not committed, or retention removed it, or the id is wrong'::text,
        jsonb_build_object('created_at', v_made), 'check that the producer commits'::text;
end
$$;

do $$
declare
    c record;
begin
    for c in select * from (values
        ('relays', null, 'The relays that run, by their own account.'),
        ('relays', 'worker', 'The name it claims by.'),
        ('relays', 'host', 'Where it runs.'),
        ('relays', 'pid', 'Its process there.'),
        ('relays', 'version', 'Its version.'),
        ('relays', 'state', 'running, disabled, paused or stopping.'),
        ('relays', 'started_at', 'When it started.'),
        ('relays', 'seen_at', 'When it was heard of last.'),
        ('relays', 'alive', 'It was heard of within three beats.'),
        ('relays', 'info', 'What else it tells of itself, as JSON: its sinks (see sinks), its routes, and whether it is enabled.'),
        ('sinks', null, 'The sinks of the relays that run, as each relay sees them.'),
        ('sinks', 'relay', 'The relay.'),
        ('sinks', 'name', 'The sink''s name.'),
        ('sinks', 'kind', 'Its kind, as configured.'),
        ('sinks', 'breaker', 'closed (delivers), open (deliveries suspended) or half_open (one message probes).'),
        ('sinks', 'cause', 'Why it is not closed: down, failing or blocked.'),
        ('sinks', 'since', 'Since when it is not closed.'),
        ('sinks', 'next_probe', 'When the next message probes it.'),
        ('sinks', 'code', 'The code of its last failure.'),
        ('sinks', 'error', 'The text of its last failure.'),
        ('sinks', 'error_at', 'When that was.'),
        ('sinks', 'success_at', 'When it last accepted a message.'),
        ('sinks', 'failed', 'Attempts that failed since then.'),
        ('sinks', 'in_flight', 'Messages under way.'),
        ('sinks', 'rate', 'Deliveries per second, lately.'),
        ('sinks', 'concurrency', 'How many messages may be under way at a time.'),
        ('sinks', 'rate_limit', 'How many may go per time; null: no limit.'),
        ('sinks', 'limited_until', 'The receiver asked to wait until then.'),
        ('sinks', 'paused', 'An operator paused it.'),
        ('pauses', null, 'What operators paused.'),
        ('pauses', 'namespace', 'The namespace, or a pattern; null: all.'),
        ('pauses', 'topic', 'The topic, or a pattern; null: all.'),
        ('pauses', 'sink', 'The sink, if a sink is paused.'),
        ('pauses', 'at', 'Since when.'),
        ('pauses', 'actor', 'By whom.'),
        ('pauses', 'reason', 'Why, in the actor''s words.'),
        ('tunings', null, 'Settings of the relays that an operator changed while they run.'),
        ('tunings', 'name', 'poll, batch, enabled, sink.NAME.rate or sink.NAME.concurrency.'),
        ('tunings', 'value', 'What it is set to.'),
        ('tunings', 'at', 'Since when.'),
        ('tunings', 'actor', 'By whom.'),
        ('tunings', 'reason', 'Why, in the actor''s words.')) c(view, col, text) loop
        if c.col is null then
            execute format('comment on view %I.%I is %L', @schema_text@, c.view, c.text);
        else
            execute format('comment on column %I.%I.%I is %L', @schema_text@, c.view, c.col, c.text);
        end if;
    end loop;
end
$$;
