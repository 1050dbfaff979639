-- Find: what is due, and a lock on it. The first step of a claim; 005_claim.sql has the others.
--
-- Marks. Claimed and settled rows leave dead entries at the head of the index, and while some old transaction holds
-- xmin they cannot be removed: every claim would walk over all of them. So a busy session, one whose last claim was full
-- and large, remembers per probe how far it got, and starts there. Late commits and expired leases lie behind the mark; a
-- sweep from the beginning finds them: with every claim of a calm session, every 0.5 s in a busy one, or less often where
-- sweeps are so dear that they would take over a twentieth of the time. Marks are only hints, kept in a session setting: a
-- pooled session that changes hands loses nothing but a little speed.
--
-- Turns. A batch goes by priority and age, but not all of it, or a flood would starve the rest:
--   - A sixteenth is for the priorities below the highest that is due, in equal parts, the oldest of each. A claim for less
--     than 16 gives them one message a second.
--   - While claims come back full, half of a batch is for tenants by turns, in equal parts: of each the highest priority and
--     oldest. Looking for tenants may take a twentieth of the time; so with some thousand tenants a turn comes round within
--     a second, with more of them later. For one tenant, and for claims of one message, twice a second is enough.
-- What turns do not use goes to the rest. Order per key is a step of its own, and knows nothing of turns.

create type @schema@.mark as (lane bigint, prio smallint, shard smallint, low timestamptz);
-- A tenant's messages of a lane, priority and shard, and when the first of them is due.
create type @schema@.turn as (tenant uuid, lane bigint, prio smallint, shard smallint, low timestamptz);

-- Every (lane, priority, shard) that has rows to take, with the due time of the first one: a loose scan, one index
-- descent each. lanes null: all of them.
create function @schema@.probes(lanes bigint[], denied bigint[], v_now timestamptz) returns @schema@.mark[]
    language plpgsql
as $$
#variable_conflict use_column
declare
    marks @schema@.mark[];
begin
    with recursive l(lane) as (
        select * from (select q.lane from @schema@.queue q where not q.parked and lanes is null
                        order by q.lane limit 1) first
        union all
        select n.lane from l, lateral (select q.lane from @schema@.queue q where not q.parked and q.lane > l.lane
                                        order by q.lane limit 1) n
    ), wanted(lane) as (
        select lane from l union all select unnest(lanes)
    ), p(lane, prio, shard, low) as (
        select f.* from wanted w, lateral (select q.lane, q.prio, q.shard, q.due from @schema@.queue q
                where not q.parked and q.lane = w.lane and (q.until is null or q.until <= v_now)
                order by q.lane, q.prio, q.shard, q.due limit 1) f
        where w.lane <> all (denied)
        union all
        select n.* from p, lateral (select q.lane, q.prio, q.shard, q.due from @schema@.queue q
                where not q.parked and q.lane = p.lane and (q.prio, q.shard) > (p.prio, p.shard)
                  and (q.until is null or q.until <= v_now)
                order by q.lane, q.prio, q.shard, q.due limit 1) n
    )
    select coalesce(array_agg(row (lane, prio, shard, low)::@schema@.mark order by prio desc, low), '{}') into marks
      from p;
    return marks;
end
$$;

-- The same for one tenant.
create function @schema@.tenant_probes(tenant uuid, lanes bigint[], denied bigint[], v_now timestamptz) returns @schema@.mark[]
    language plpgsql
as $$
#variable_conflict use_column
declare
    marks @schema@.mark[];
begin
    with recursive p(lane, prio, shard, low) as (
        select * from (select q.lane, q.prio, q.shard, q.due from @schema@.queue q
                where not q.parked and q.tenant_id = tenant and (q.until is null or q.until <= v_now)
                order by q.tenant_id, q.lane, q.prio, q.shard, q.due limit 1) first
        union all
        select n.* from p, lateral (select q.lane, q.prio, q.shard, q.due from @schema@.queue q
                where not q.parked and q.tenant_id = tenant and (q.lane, q.prio, q.shard) > (p.lane, p.prio, p.shard)
                  and (q.until is null or q.until <= v_now)
                order by q.tenant_id, q.lane, q.prio, q.shard, q.due limit 1) n
    )
    select coalesce(array_agg(row (lane, prio, shard, low)::@schema@.mark order by prio desc, low), '{}') into marks
      from p where lane <> all (denied) and (lanes is null or lane = any (lanes));
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

-- Step 1. Of one priority no probe gives more than its share of the batch, so that no shard or topic starves another.
-- The arrays run in parallel, a row each; the flags say whether any row has a key, has none, is at its end, or was lost.
create type @schema@.locked as (tids tid[], probes int[], dues timestamptz[], keyed boolean, loose boolean, dying boolean,
    expired boolean);

create function @schema@.together(a @schema@.locked, b @schema@.locked) returns @schema@.locked
    language sql immutable
as $$
    select a.tids || b.tids, a.probes || b.probes, a.dues || b.dues, coalesce(a.keyed or b.keyed, a.keyed, b.keyed),
           coalesce(a.loose or b.loose, a.loose, b.loose), coalesce(a.dying or b.dying, a.dying, b.dying),
           coalesce(a.expired or b.expired, a.expired, b.expired)
$$;

-- What lower priorities get of a batch: see Turns.
create function @schema@.lock_lower(marks @schema@.mark[], most int, attempts_limit int, v_now timestamptz)
    returns @schema@.locked
    language plpgsql
as $$
#variable_conflict use_column
declare
    got @schema@.locked;
begin
    select array_agg(c.tid), array_agg(c.probe), array_agg(c.due), bool_or(c.keyed), bool_or(not c.keyed),
           bool_or(c.dying), bool_or(c.expired)
      into got
      from (select c.*
              from (select array_agg(row (m.lane, m.prio, m.shard, m.low)::@schema@.mark order by m.low) as marks,
                           array_agg(m.ordinality::int order by m.low) as probes,
                           ceil(most::numeric / count(*) over ())::int as share
                      from (select m.*, max(m.prio) over () as top
                              from unnest(marks) with ordinality m where m.low <= v_now) m
                     where m.prio < m.top group by m.prio order by min(m.low)) l,
                   lateral (select c.*, m.probe
                              from unnest(l.marks, l.probes) m(lane, prio, shard, low, probe),
                                   lateral (select q.ctid as tid, q.due, q.sid is not null as keyed,
                                                   q.until is not null as expired,
                                                   q.spent >= least(q.max_attempts, attempts_limit)
                                                       or coalesce(q.expires_at <= v_now, false) as dying
                                              from @schema@.queue q
                                             where q.lane = m.lane and q.prio = m.prio and q.shard = m.shard and not q.parked
                                               and q.due between m.low and v_now and (q.until is null or q.until <= v_now)
                                             order by q.due limit l.share
                                               for update skip locked) c
                             limit l.share) c
             limit most) c;
    return got;
end
$$;

-- What tenants get of a batch.
create function @schema@.lock_turns(turns @schema@.turn[], lanes bigint[], denied bigint[], taken tid[], most int,
    attempts_limit int, v_now timestamptz)
    returns @schema@.locked
    language plpgsql
as $$
#variable_conflict use_column
declare
    got @schema@.locked;
begin
    select array_agg(c.tid), null, null, bool_or(c.keyed), bool_or(not c.keyed), bool_or(c.dying), bool_or(c.expired)
      into got
      from (select c.*
              from (select t.tenant, array_agg(row (t.tenant, t.lane, t.prio, t.shard, t.low)::@schema@.turn
                                               order by t.prio desc, t.low) as turns,
                           greatest(most / count(*) over (), 1) as share
                      from unnest(turns) t
                     where t.low <= v_now and (lanes is null or t.lane = any (lanes)) and t.lane <> all (denied)
                     group by t.tenant) l,
                   lateral (select c.*
                              from unnest(l.turns) t,
                                   lateral (select q.ctid as tid, q.sid is not null as keyed, q.until is not null as expired,
                                                   q.spent >= least(q.max_attempts, attempts_limit)
                                                       or coalesce(q.expires_at <= v_now, false) as dying
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

-- The rest, without the rows that are taken already.
create function @schema@.lock_due(marks @schema@.mark[], tenant uuid, taken tid[], most int, attempts_limit int,
    v_now timestamptz)
    returns @schema@.locked
    language plpgsql
as $$
#variable_conflict use_column
declare
    got @schema@.locked;
    more boolean; -- some gave all they were asked for
begin
    if tenant is null then
        select array_agg(c.tid), array_agg(c.probe), array_agg(c.due), bool_or(c.keyed), bool_or(not c.keyed),
               bool_or(c.dying), bool_or(c.expired)
          into got
          from (select c.*, p.probe
                  from (select m.lane, m.prio, m.shard, m.low, m.ordinality::int as probe,
                               ceil(most / least(count(*) over (partition by m.prio), 8.0))::int as share
                          from unnest(marks) with ordinality m where m.low <= v_now order by m.ordinality) p,
                       lateral (select q.ctid as tid, q.due, q.sid is not null as keyed, q.until is not null as expired,
                                       q.spent >= least(q.max_attempts, attempts_limit)
                                           or coalesce(q.expires_at <= v_now, false) as dying
                                  from @schema@.queue q
                                 where q.lane = p.lane and q.prio = p.prio and q.shard = p.shard and not q.parked
                                   and q.due between p.low and v_now and (q.until is null or q.until <= v_now)
                                   and (taken is null or q.ctid not in (select unnest(taken)))
                                 order by q.due limit p.share
                                   for update skip locked) c
                 limit most) c;
    else
        select array_agg(c.tid), array_agg(c.probe), array_agg(c.due), bool_or(c.keyed), bool_or(not c.keyed),
               bool_or(c.dying), bool_or(c.expired)
          into got
          from (select c.*, p.probe
                  from (select m.lane, m.prio, m.shard, m.low, m.ordinality::int as probe,
                               ceil(most / least(count(*) over (partition by m.prio), 8.0))::int as share
                          from unnest(marks) with ordinality m where m.low <= v_now order by m.ordinality) p,
                       lateral (select q.ctid as tid, q.due, q.sid is not null as keyed, q.until is not null as expired,
                                       q.spent >= least(q.max_attempts, attempts_limit)
                                           or coalesce(q.expires_at <= v_now, false) as dying
                                  from @schema@.queue q
                                 where q.tenant_id = tenant and q.lane = p.lane and q.prio = p.prio
                                   and q.shard = p.shard and not q.parked
                                   and q.due between p.low and v_now and (q.until is null or q.until <= v_now)
                                   and (taken is null or q.ctid not in (select unnest(taken)))
                                 order by q.due limit p.share
                                   for update skip locked) c
                 limit most) c;
    end if;
    got.tids := coalesce(got.tids, '{}');
    -- Where some had less than their share, the rest is for those that have more: a batch that is not full says that nothing
    -- is left.
    if cardinality(got.tids) between 1 and most - 1 and cardinality(marks) > 1 then
        select array_agg(row (m.lane, m.prio, m.shard, case when g.count >= m.share then g.due else 'infinity' end)::@schema@.mark
                         order by m.ordinality), bool_or(g.count >= m.share)
          into marks, more
          from (select m.*, case when m.low <= v_now then ceil(most / least(count(*) filter (where m.low <= v_now)
                                over (partition by m.prio), 8.0)) end as share
                  from unnest(marks) with ordinality m) m
          left join (select g.probe, count(*), max(g.due) as due from unnest(got.probes, got.dues) g(probe, due)
                      group by g.probe) g on g.probe = m.ordinality;
        if more then
            got := @schema@.together(got, @schema@.lock_due(marks, tenant, taken || got.tids, most - cardinality(got.tids),
                attempts_limit, v_now));
        end if;
    end if;
    return got;
end
$$;
