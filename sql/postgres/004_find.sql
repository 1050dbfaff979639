-- Find: selects and locks what is due. The first step of a claim; 005_claim.sql has the others.
--
-- Probes. While few lanes have rows, each (lane, priority, shard) is a probe of its own, in the index that leads with the
-- lane: lanes that are paused or out of scope cost nothing, however full. If many lanes have rows, a probe for each
-- would be too many. Then the probes are wide, without a lane, in the index without the lane, and rows of lanes that
-- the claim may not take from are skipped. Skipped rows are counted: after a certain number the claim stops, reports
-- that there is more, and the next claim continues from there.
--
-- Marks. Claimed and settled rows leave dead entries at the head of the index, and while an old transaction holds back
-- xmin they cannot be removed: every claim would read all of them. So a session remembers for each probe how far it
-- got, and starts there. Late commits and expired leases are before the mark, and a new probe has no mark; a sweep from
-- the beginning finds them. A busy session, one whose last claim was full and large, sweeps every 0.5 s, any other with
-- every claim; both sweep less often if sweeps would take more than a twentieth of the time. Then a claim that finds nothing
-- looks at what became due since the last sweep (fresh_probes). Marks are only hints, kept in a session setting: if a pooled
-- session changes its client, only a little speed is lost.
--
-- Turns. A batch is filled by priority and age, except for two shares, so that a flood does not starve the rest:
--   - A sixteenth is for the priorities below the highest that is due, in equal parts, the oldest of each. A claim for
--     fewer than 16 gives them one message a second.
--   - While claims come back full, half of a batch is for tenants by turns, in equal parts: of each the highest priority and
--     oldest. Looking for tenants may take a twentieth of the time; so with some thousand tenants a turn comes round within
--     a second, with more of them later. For one tenant, and for claims of one message, twice a second is enough.
-- What turns do not use goes to the rest. Order per key is a separate step, independent of turns.

-- lane null: a wide probe. high: no further than that; null: to what is due now.
create type @schema@.mark as (lane bigint, prio smallint, shard smallint, low timestamptz, high timestamptz);
-- A tenant's messages of a lane, priority and shard, and when the first of them is due.
create type @schema@.turn as (tenant uuid, lane bigint, prio smallint, shard smallint, low timestamptz);

-- The lanes that a claim may take from. open: all. lanes: only those; otherwise all of the namespace, where one is
-- given. Not from denied ones, nor from lanes whose first match among the rules is a skip (patterns are LIKE's; pauses
-- of patterns come first); nor from namespaces that are paused, quiet, nor, where any topic is paused, from such
-- topics.
create type @schema@.scope as (open boolean, lanes bigint[], namespace text, paused boolean, quiet text[], denied bigint[],
    namespaces text[], topics text[], skips boolean[]);

create function @schema@.allows(s @schema@.scope, lane bigint) returns boolean
    language plpgsql
as $$
begin
    if s.open then
        return true;
    elsif s.lanes is not null and lane <> all (s.lanes) or lane = any (s.denied) then
        return false;
    elsif s.paused and exists (select from @schema@.pause p where p.lane = allows.lane) then
        return false;
    elsif s.quiet is null and s.namespace is null and s.skips is null then
        return true;
    end if;
    return exists (select from @schema@.lane l
                    where l.id = lane and (s.namespace is null or l.namespace = s.namespace)
                      and (s.quiet is null or l.namespace <> all (s.quiet))
                      and (s.skips is null or (select r.skip from unnest(s.namespaces, s.topics, s.skips)
                               with ordinality r(namespace, topic, skip, n)
                               where l.namespace like r.namespace and l.topic like r.topic order by r.n limit 1) is not true));
end
$$;

-- How many entries of the indexes of due rows this transaction has read, dead ones included. Counts, unlike times, are the same
-- on a busy machine; with statistics off, no sweep counts as expensive.
create function @schema@.entries_read() returns bigint
    language sql
as $$
    select pg_stat_get_xact_tuples_returned('@schema@.queue_due'::regclass)
         + pg_stat_get_xact_tuples_returned('@schema@.queue_next'::regclass)
$$;

-- Every (lane, priority, shard) that has rows to take, with the due time of the first one: a loose scan, one index
-- descent each. lanes null: all of them, or none when they are more than most.
create function @schema@.probes(lanes bigint[], most int, v_now timestamptz) returns @schema@.mark[]
    language plpgsql
as $$
#variable_conflict use_column
begin
    if lanes is null then
        with recursive l(lane, n) as (
            select * from (select q.lane, 1 from @schema@.queue q where not q.parked order by q.lane limit 1) first
            union all
            select f.lane, l.n + 1
              from l, lateral (select q.lane from @schema@.queue q where not q.parked and q.lane > l.lane
                                order by q.lane limit 1) f
             where l.n <= most
        )
        select coalesce(array_agg(lane), '{}') into lanes from l;
        if cardinality(lanes) > most then
            return null;
        end if;
    end if;
    return (
        with recursive p(lane, prio, shard, low) as (
            select f.* from unnest(lanes) w(lane), lateral (select q.lane, q.prio, q.shard, q.due from @schema@.queue q
                    where not q.parked and q.lane = w.lane and (q.until is null or q.until <= v_now)
                    order by q.lane, q.prio, q.shard, q.due limit 1) f
            union all
            select n.* from p, lateral (select q.lane, q.prio, q.shard, q.due from @schema@.queue q
                    where not q.parked and q.lane = p.lane and (q.prio, q.shard) > (p.prio, p.shard)
                      and (q.until is null or q.until <= v_now)
                    order by q.lane, q.prio, q.shard, q.due limit 1) n
        )
        select coalesce(array_agg(row (lane, prio, shard, low, null)::@schema@.mark order by prio desc, low), '{}') from p);
end
$$;

-- Every (priority, shard) that has rows to take, whatever their lanes.
create function @schema@.wide_probes(v_now timestamptz) returns @schema@.mark[]
    language plpgsql
as $$
#variable_conflict use_column
begin
    return (
        with recursive p(prio, shard, low) as (
            select * from (select q.prio, q.shard, q.due from @schema@.queue q
                    where not q.parked and (q.until is null or q.until <= v_now)
                    order by q.prio, q.shard, q.due limit 1) first
            union all
            select n.* from p, lateral (select q.prio, q.shard, q.due from @schema@.queue q
                    where not q.parked and (q.prio, q.shard) > (p.prio, p.shard) and (q.until is null or q.until <= v_now)
                    order by q.prio, q.shard, q.due limit 1) n
        )
        select coalesce(array_agg(row (null, prio, shard, low, null)::@schema@.mark order by prio desc, low), '{}') from p);
end
$$;

-- Probes of what became due since the last sweep: a message that was woken or admitted may have a priority or shard that had none then.
-- Cheap even where a sweep is not: it looks at each (priority, shard) once, from that time on.
create function @schema@.fresh_probes(s @schema@.scope, wide boolean, v_since timestamptz, v_now timestamptz) returns @schema@.mark[]
    language plpgsql
as $$
#variable_conflict use_column
begin
    return array(select row (case when not wide then q.lane end, p.prio, h.shard, q.due, null)::@schema@.mark
                   from generate_series(0, 9) p(prio)
                  cross join generate_series(-1, 15) h(shard)
                  cross join lateral (select q.lane, q.due from @schema@.queue q
                                       where not q.parked and q.prio = p.prio and q.shard = h.shard and q.due between v_since and v_now
                                         and (q.until is null or q.until <= v_now)
                                       order by q.due limit 1) q
                  where @schema@.allows(s, q.lane)
                  order by p.prio desc, q.due);
end
$$;

-- How far wide probes go at once if lanes are skipped: as far as a given number of rows reaches.
create function @schema@.bounded(marks @schema@.mark[], most int, v_now timestamptz) returns @schema@.mark[]
    language plpgsql
as $$
#variable_conflict use_column
begin
    return array(select row (null, m.prio, m.shard, m.low, h.due)::@schema@.mark
                   from unnest(marks) with ordinality m
                   left join lateral (select q.due from @schema@.queue q
                                       where m.low <= v_now and q.prio = m.prio and q.shard = m.shard and not q.parked
                                         and q.due between m.low and v_now
                                       order by q.due offset most limit 1) h on true
                  order by m.ordinality);
end
$$;

-- The same as probes for one tenant. If a tenant has very many lanes, some are read now and others the next time: lane
-- numbers are digests, so any starting point is as good as another.
create function @schema@.tenant_probes(tenant uuid, s @schema@.scope, most int, v_now timestamptz) returns @schema@.mark[]
    language plpgsql
as $$
#variable_conflict use_column
declare
    start constant bigint := ((random() - 0.5) * 18446744073709549568)::bigint;
    marks @schema@.mark[];
begin
    with recursive p(lane, prio, shard, low, wrapped, n) as (
        select 9223372036854775807, 0::smallint, 0::smallint, v_now, false, 0
        union all
        select f.lane, f.prio, f.shard, f.due, f.wrapped, p.n + 1
          from p, lateral (
                (select q.lane, q.prio, q.shard, q.due, p.wrapped from @schema@.queue q
                  where not q.parked and q.tenant_id = tenant and (q.until is null or q.until <= v_now)
                    and ((q.lane, q.prio, q.shard) > (p.lane, p.prio, p.shard)) and p.n > 0
                    and (not p.wrapped or q.lane < start)
                  order by q.tenant_id, q.lane, q.prio, q.shard, q.due limit 1)
                union all
                (select q.lane, q.prio, q.shard, q.due, false from @schema@.queue q
                  where not q.parked and q.tenant_id = tenant and (q.until is null or q.until <= v_now)
                    and p.n = 0 and q.lane >= start
                  order by q.tenant_id, q.lane, q.prio, q.shard, q.due limit 1)
                union all
                (select q.lane, q.prio, q.shard, q.due, true from @schema@.queue q
                  where not q.parked and q.tenant_id = tenant and (q.until is null or q.until <= v_now)
                    and not p.wrapped and q.lane < start
                  order by q.tenant_id, q.lane, q.prio, q.shard, q.due limit 1)
                limit 1) f
         where p.n < most
    )
    select coalesce(array_agg(row (lane, prio, shard, low, null)::@schema@.mark order by prio desc, low), '{}') into marks
      from p where n > 0 and @schema@.allows(s, lane);
    return marks;
end
$$;

-- The turns that come next, from the beginning again after the last: a loose scan over what tenants have, one or two index
-- descents each. Lanes out of scope and messages of another day are among them. What is said twice of the tenant is said
-- for the planner, here and below: whatever its statistics are, no other index may seem good enough.
create function @schema@.turns(after @schema@.turn, tenants int, most int, v_now timestamptz) returns @schema@.turn[]
    language plpgsql
as $$
#variable_conflict use_column
declare
    found @schema@.turn[];
begin
    if after.tenant is null then
        after.tenant := '00000000-0000-0000-0000-000000000000';
        after.lane := 9223372036854775807;
    end if;
    with recursive t(n, tenants, tenant, lane, prio, shard, low) as (
        values (0, 0, after.tenant, after.lane, after.prio, after.shard, v_now)
        union all
        select t.n + 1, t.tenants + (t.n = 0 or f.tenant_id <> t.tenant)::int, f.*
          from t, lateral ((select q.tenant_id, q.lane, q.prio, q.shard, q.due from @schema@.queue q
                             where not q.parked and (q.until is null or q.until <= v_now)
                               and q.tenant_id = t.tenant and q.tenant_id between t.tenant and t.tenant
                               and (q.lane, q.prio, q.shard) > (t.lane, t.prio, t.shard)
                             order by q.lane, q.prio, q.shard, q.due limit 1)
                           union all
                           (select q.tenant_id, q.lane, q.prio, q.shard, q.due from @schema@.queue q
                             where not q.parked and (q.until is null or q.until <= v_now) and q.tenant_id > t.tenant
                               and t.tenants < turns.tenants
                             order by q.tenant_id, q.lane, q.prio, q.shard, q.due limit 1)
                           limit 1) f
         where t.n < most
    )
    select array_agg(row (tenant, lane, prio, shard, low)::@schema@.turn order by n) into found from t where n > 0;
    if found is null and after.prio is not null then
        return @schema@.turns(null, tenants, most, v_now);
    end if;
    return coalesce(found, '{}');
end
$$;

-- The two tests of a queue row, each defined once. They are inlined, and cost no call.
--
-- At its end: no attempts are left under this claim, or it has expired.
create function @schema@.is_exhausted(spent int, max_attempts int, attempts_limit int, expires_at timestamptz, v_now timestamptz)
    returns boolean
    language sql immutable
as $$
    select spent >= least(max_attempts, attempts_limit) or coalesce(expires_at <= v_now, false)
$$;
-- Suspect: every attempt was lost with its worker, and one is left. See Suspects in 005_claim.sql.
create function @schema@.is_suspect(spent int, max_attempts int, attempts_limit int, lost int, until timestamptz) returns boolean
    language sql immutable
as $$
    select spent = least(max_attempts, attempts_limit) - 1 and spent > 0 and lost + (until is not null)::int >= spent
$$;

-- Step 1. Of one priority no probe gives more than its share of the batch, so that no shard or topic starves another.
-- The arrays run in parallel, a row each; the flags say whether any row has a key, has none, is exhausted, has a lease that
-- ended, or is suspect; bytes: of all payloads.
create type @schema@.locked as (tids tid[], probes int[], dues timestamptz[], keyed boolean, loose boolean, exhausted boolean,
    expired boolean, suspect boolean, bytes bigint);

create function @schema@.merge_locked(a @schema@.locked, b @schema@.locked) returns @schema@.locked
    language sql immutable
as $$
    select a.tids || b.tids, a.probes || b.probes, a.dues || b.dues, coalesce(a.keyed or b.keyed, a.keyed, b.keyed),
           coalesce(a.loose or b.loose, a.loose, b.loose), coalesce(a.exhausted or b.exhausted, a.exhausted, b.exhausted),
           coalesce(a.expired or b.expired, a.expired, b.expired), coalesce(a.suspect or b.suspect, a.suspect, b.suspect),
           coalesce(a.bytes, 0) + coalesce(b.bytes, 0)
$$;

-- The share of a batch that goes to tenants in turn.
create function @schema@.lock_turns(turns @schema@.turn[], s @schema@.scope, taken tid[], most int, attempts_limit int,
    v_now timestamptz)
    returns @schema@.locked
    language plpgsql
as $$
#variable_conflict use_column
declare
    got @schema@.locked;
begin
    select array_agg(c.tid), null, null, bool_or(c.sid is not null), bool_or(c.sid is null),
           bool_or(@schema@.is_exhausted(c.spent, c.max_attempts, attempts_limit, c.expires_at, v_now)),
           bool_or(c.until is not null), bool_or(@schema@.is_suspect(c.spent, c.max_attempts, attempts_limit, c.lost, c.until)),
           sum(c.bytes)
      into got
      from (select c.*
              from (select t.tenant, array_agg(row (t.tenant, t.lane, t.prio, t.shard, t.low)::@schema@.turn
                                               order by t.prio desc, t.low) as turns,
                           greatest(most / count(*) over (), 1) as share
                      from unnest(turns) t
                     where t.low <= v_now and (s.open or @schema@.allows(s, t.lane))
                     group by t.tenant) l,
                   lateral (select c.*
                              from unnest(l.turns) t,
                                   lateral (select q.ctid as tid, q.sid, q.until, q.spent, q.lost, q.bytes, q.expires_at,
                                                   q.max_attempts
                                              from @schema@.queue q
                                             where q.tenant_id = t.tenant and q.tenant_id between t.tenant and t.tenant
                                               and q.lane = t.lane and q.prio = t.prio and q.shard = t.shard and not q.parked
                                               and q.due between t.low and v_now and (q.until is null or q.until <= v_now)
                                               and (taken is null or q.ctid not in (select unnest(taken)))
                                             order by q.due limit l.share
                                               for update skip locked) c
                             limit l.share) c
             limit most) c;
    return got;
end
$$;

-- The rest, without the rows that are taken already. The three statements differ in the index that they go by; in one, the
-- server would prepare all three with every call, which costs a small claim a tenth more.
create function @schema@.lock_due(marks @schema@.mark[], s @schema@.scope, tenant uuid, taken tid[], most int,
    attempts_limit int, v_now timestamptz)
    returns @schema@.locked
    language plpgsql
as $$
#variable_conflict use_column
declare
    got @schema@.locked;
    more boolean; -- some gave all they were asked for
begin
    if tenant is not null then
        select array_agg(c.tid), array_agg(c.probe), array_agg(c.due), bool_or(c.sid is not null), bool_or(c.sid is null),
               bool_or(@schema@.is_exhausted(c.spent, c.max_attempts, attempts_limit, c.expires_at, v_now)),
               bool_or(c.until is not null),
               bool_or(@schema@.is_suspect(c.spent, c.max_attempts, attempts_limit, c.lost, c.until)), sum(c.bytes)
          into got
          from (select c.*, p.probe
                  from (select m.lane, m.prio, m.shard, m.low, m.ordinality::int as probe,
                               ceil(most / least(count(*) over (partition by m.prio), 8.0))::int as share
                          from unnest(marks) with ordinality m where m.low <= v_now order by m.ordinality) p,
                       lateral (select q.ctid as tid, q.due, q.sid, q.until, q.spent, q.lost, q.bytes, q.expires_at,
                                       q.max_attempts
                                  from @schema@.queue q
                                 where q.tenant_id = tenant and q.lane = p.lane and q.prio = p.prio
                                   and q.shard = p.shard and not q.parked
                                   and q.due between p.low and v_now and (q.until is null or q.until <= v_now)
                                   and (taken is null or q.ctid not in (select unnest(taken)))
                                 order by q.due limit p.share
                                   for update skip locked) c
                 limit most) c;
    elsif marks[1].lane is not null then
        select array_agg(c.tid), array_agg(c.probe), array_agg(c.due), bool_or(c.sid is not null), bool_or(c.sid is null),
               bool_or(@schema@.is_exhausted(c.spent, c.max_attempts, attempts_limit, c.expires_at, v_now)),
               bool_or(c.until is not null),
               bool_or(@schema@.is_suspect(c.spent, c.max_attempts, attempts_limit, c.lost, c.until)), sum(c.bytes)
          into got
          from (select c.*, p.probe
                  from (select m.lane, m.prio, m.shard, m.low, m.ordinality::int as probe,
                               ceil(most / least(count(*) over (partition by m.prio), 8.0))::int as share
                          from unnest(marks) with ordinality m where m.low <= v_now order by m.ordinality) p,
                       lateral (select q.ctid as tid, q.due, q.sid, q.until, q.spent, q.lost, q.bytes, q.expires_at,
                                       q.max_attempts
                                  from @schema@.queue q
                                 where q.lane = p.lane and q.prio = p.prio and q.shard = p.shard and not q.parked
                                   and q.due between p.low and v_now and (q.until is null or q.until <= v_now)
                                   and (taken is null or q.ctid not in (select unnest(taken)))
                                 order by q.due limit p.share
                                   for update skip locked) c
                 limit most) c;
    elsif cardinality(marks) > 0 then
        select array_agg(c.tid), array_agg(c.probe), array_agg(c.due), bool_or(c.sid is not null), bool_or(c.sid is null),
               bool_or(@schema@.is_exhausted(c.spent, c.max_attempts, attempts_limit, c.expires_at, v_now)),
               bool_or(c.until is not null),
               bool_or(@schema@.is_suspect(c.spent, c.max_attempts, attempts_limit, c.lost, c.until)), sum(c.bytes)
          into got
          from (select c.*, p.probe
                  from (select m.prio, m.shard, m.low, coalesce(m.high, v_now) as high, m.ordinality::int as probe,
                               ceil(most / least(count(*) over (partition by m.prio), 8.0))::int as share
                          from unnest(marks) with ordinality m where m.low <= v_now order by m.ordinality) p,
                       lateral (select q.ctid as tid, q.due, q.sid, q.until, q.spent, q.lost, q.bytes, q.expires_at,
                                       q.max_attempts
                                  from @schema@.queue q
                                 where q.prio = p.prio and q.shard = p.shard and not q.parked
                                   and q.due between p.low and p.high and (q.until is null or q.until <= v_now)
                                   and (taken is null or q.ctid not in (select unnest(taken)))
                                   -- As in allows, but a call of that for each row would cost more than the rest.
                                   and (s.open or (s.denied is null or q.lane not in (select unnest(s.denied)))
                                        and not (s.paused and exists (select from @schema@.pause x where x.lane = q.lane))
                                        and (s.quiet is null and s.namespace is null and s.skips is null or exists (
                                             select from @schema@.lane l
                                              where l.id = q.lane and (s.namespace is null or l.namespace = s.namespace)
                                                and (s.quiet is null or l.namespace <> all (s.quiet))
                                                and (s.skips is null or (select r.skip
                                                         from unnest(s.namespaces, s.topics, s.skips)
                                                              with ordinality r(namespace, topic, skip, n)
                                                        where l.namespace like r.namespace and l.topic like r.topic
                                                        order by r.n limit 1) is not true))))
                                 order by q.due limit p.share
                                   for update skip locked) c
                 limit most) c;
    end if;
    got.tids := coalesce(got.tids, '{}');
    -- Where some had less than their share, the rest is for those that have more: a batch that is not full says that nothing
    -- is left.
    if cardinality(got.tids) between 1 and most - 1 and cardinality(marks) > 1 then
        select array_agg(row (m.lane, m.prio, m.shard, case when g.count >= m.share then g.due else 'infinity' end,
                              m.high)::@schema@.mark order by m.ordinality), bool_or(g.count >= m.share)
          into marks, more
          from (select m.*, case when m.low <= v_now then ceil(most / least(count(*) filter (where m.low <= v_now)
                                over (partition by m.prio), 8.0)) end as share
                  from unnest(marks) with ordinality m) m
          left join (select g.probe, count(*), max(g.due) as due from unnest(got.probes, got.dues) g(probe, due)
                      group by g.probe) g on g.probe = m.ordinality;
        if more then
            got := @schema@.merge_locked(got, @schema@.lock_due(marks, s, tenant, taken || got.tids,
                most - cardinality(got.tids), attempts_limit, v_now));
        end if;
    end if;
    return got;
end
$$;

-- The share of a batch that goes to lower priorities: see Turns.
create function @schema@.lock_lower(marks @schema@.mark[], s @schema@.scope, most int, attempts_limit int, v_now timestamptz)
    returns @schema@.locked
    language plpgsql
as $$
#variable_conflict use_column
declare
    got @schema@.locked;
    levels smallint[];
    level smallint;
begin
    select array_agg(prio order by low) into levels
      from (select m.prio, min(m.low) as low from unnest(marks) m where m.low <= v_now group by m.prio
             order by m.prio desc offset 1) l;
    foreach level in array coalesce(levels, '{}') loop
        exit when coalesce(cardinality(got.tids), 0) >= most;
        got := @schema@.merge_locked(got, @schema@.lock_due(array(
            select row (m.lane, m.prio, m.shard, case when m.prio = level then m.low else 'infinity' end, m.high)::@schema@.mark
              from unnest(marks) with ordinality m order by m.ordinality), s, null, got.tids,
            least(ceil(most::numeric / cardinality(levels))::int, most - coalesce(cardinality(got.tids), 0)), attempts_limit,
            v_now));
    end loop;
    return got;
end
$$;

-- What a session remembers of its last claim; see Marks and Turns. scope: of which claims. dear: the last sweep, which cost so
-- much time, read many dead entries. full: the last claim took all it could. depth: see Depth in 005_claim.sql.
-- low_at: since when no lower priority had its turn; turn_at: when tenants have theirs, beginning after turn. wide_until: so
-- long it is not asked whether many lanes have rows. stepped: the last claim met many rows that it may not take.
-- walking: it did not come to their end. suspect: the last batch was one suspect message.
create type @schema@.memory as (scope text, swept_at timestamptz, cost interval, dear boolean, busy boolean, "full" boolean,
    depth int, low_at timestamptz, turn_at timestamptz, turn @schema@.turn, wide_until timestamptz, stepped boolean, walking boolean,
    suspect boolean,
    marks @schema@.mark[]);

-- Looks from the beginning of the index, and remembers what it found and what that cost. wide: probes have no lane. calm:
-- probes that had rows before and have none now; they will have them from now on, or a late commit, which is for the next sweep.
create function @schema@.sweep(s @schema@.scope, few int, v_now timestamptz, inout wide boolean, inout memory @schema@.memory,
    out calm @schema@.mark[])
    language plpgsql
as $$
declare
    v_start constant timestamptz := clock_timestamp();
    v_read constant bigint := @schema@.entries_read();
    v_marks @schema@.mark[] := case when not wide then @schema@.probes(s.lanes, few, v_now) end;
begin
    if v_marks is null then
        memory.wide_until := case when wide then memory.wide_until else v_now + interval '5 s' end;
        wide := true;
        v_marks := @schema@.wide_probes(v_now);
    elsif not s.open then
        v_marks := array(select row (m.lane, m.prio, m.shard, m.low, m.high)::@schema@.mark
                           from unnest(v_marks) with ordinality m
                          where @schema@.allows(s, m.lane) order by m.ordinality);
    end if;
    memory.swept_at := v_now;
    memory.cost := clock_timestamp() - v_start;
    memory.dear := @schema@.entries_read() - v_read > 500 + 4 * cardinality(v_marks);
    memory.busy := false;
    calm := case when cardinality(memory.marks) > 0 then array(
        select row (m.lane, m.prio, m.shard, v_now, null)::@schema@.mark
          from unnest(memory.marks) with ordinality m
         where (m.lane is null) = wide and not exists (
               select from unnest(v_marks) x where x.prio = m.prio and x.shard = m.shard
                  and x.lane is not distinct from m.lane)
         order by m.low desc limit 2 * few) end;
    memory.marks := v_marks;
end
$$;

-- Where the next claim goes on. Where rows were stepped over, the mark is behind what has been looked at; where some were left
-- (left_rows), before them. given: how many of the width these probes gave, which are the rows of got but for those that filled
-- the batch up. last_probe: the last that found any, where probes were bounded.
create function @schema@.next_marks(marks @schema@.mark[], got @schema@.locked, given int, width int, last_probe int,
    left_rows tid[], v_wide boolean) returns @schema@.mark[]
    language plpgsql
as $$
#variable_conflict use_column
begin
    return array(
        select row (m.lane, m.prio, m.shard, least(greatest(m.low, g.due, case when m.high is not null
                       and (given < width and coalesce(g.count, 0) <= width / 8
                            or g.count is null and m.ordinality < last_probe) then m.high + interval '1 us' end), l.due),
                       null)::@schema@.mark as mark
          from unnest(marks) with ordinality m
          left join (select g.probe, max(g.due) as due, count(*) from unnest(got.probes, got.dues) g(probe, due)
                      group by g.probe) g on g.probe = m.ordinality
          left join (select case when not v_wide then q.lane end as lane, q.prio, q.shard, min(q.due) as due
                       from @schema@.queue q where q.ctid = any (left_rows) group by 1, 2, 3) l
              on l.prio = m.prio and l.shard = m.shard and l.lane is not distinct from m.lane
         order by m.prio desc, greatest(m.low, g.due));
end
$$;

-- What is taken first, out of the order of priority and age: see Turns. most: how many rows the batch is made of.
create function @schema@.lock_fairly(marks @schema@.mark[], s @schema@.scope, most int, attempts_limit int, v_now timestamptz,
    inout memory @schema@.memory, out got @schema@.locked)
    language plpgsql
as $$
declare
    v_share int := most / 16;
    v_start timestamptz;
    v_turns @schema@.turn[];
begin
    if not coalesce(memory.full, false) then
        memory.low_at := v_now;
    elsif v_share = 0 and v_now >= memory.low_at + interval '1 s' then
        v_share := 1;
    end if;
    if v_share > 0 and marks[1].prio <> marks[cardinality(marks)].prio then
        got := @schema@.lock_lower(marks, s, v_share, attempts_limit, v_now);
        memory.low_at := v_now;
    end if;
    v_share := least(greatest(most / 2, 1), most - coalesce(cardinality(got.tids), 0));
    if v_share > 0 and coalesce(memory.full, true) and v_now >= coalesce(memory.turn_at, '-infinity') then
        v_start := clock_timestamp();
        v_turns := @schema@.turns(memory.turn, v_share, 500, v_now);
        memory.turn_at := v_now + greatest(least((clock_timestamp() - v_start) * 20, '2 s'), case when most = 1
            or v_turns[1].tenant is not distinct from v_turns[cardinality(v_turns)].tenant then interval '0.5 s' end);
        if cardinality(v_turns) > 0 then
            got := @schema@.merge_locked(got, @schema@.lock_turns(v_turns, s, got.tids, v_share, attempts_limit, v_now));
        end if;
        memory.turn := v_turns[cardinality(v_turns)];
    end if;
end
$$;
