-- The log: messages in the order of their commits, taken by relays a window at a time.
--
-- An ordinary message is one row of message and nothing else. A relay takes a window: the next piece of a shard's log, under a
-- lease that is one row of log_window. It settles the window's messages as their outcomes come in. Delivered ones get their
-- attempt row; any other becomes a row of the queue, and goes on from there. When all are settled, the window is closed.
--
-- Place. A message's place in the log is (ord, pos): ord is the number of its transaction, or that of its key's last message if
-- that is higher; pos is a sequence. For every key this is the order of seq. (The number alone would not be: a transaction gets its
-- number with its first write, the key's row lock later.) A message whose ord is not its own number is late, and has xid.
--
-- Cursor. A range of the log is the difference of two snapshots, before and upto, so a long transaction holds up nobody, and is
-- not missed when it commits. All that upto sees and before does not is: the rows with ord >= xmax of before, and rows of the
-- transactions that ran at before (stragglers), whose ord is lower: they are looked for by number. Stragglers go first. The
-- transactions of a key commit in the order of seq, so no snapshot sees a later message without the earlier one.
--
-- Invariants
--   1. Of each key the unsettled messages are: some in the queue, then some in at most one open window, then some in the log.
--      So a message with a key never goes straight from enqueue to the queue once its key has used the log.
--   2. A shard of keys has at most one open window; the shard of messages without a key has any number.
--   3. The state of a shard is its newest window. Only who has locked the shard's row in log_shard adds one.
--   4. The content of a window follows from its row and from message: anybody can read it again, at any time. So nothing is
--      written when it is taken, and repair needs no help.
--   5. Settling locks the window's row and compares open and nonce, so settling and repair exclude each other. An id may come
--      again after a crash that lost asynchronous commits; a nonce does not.
--   6. A key that has rows in the queue when a window is taken is left out of it: its messages go to the queue, behind those.
--      Rows of a key come to the queue only from its shard's windows, which are all closed when the next is taken.
--
-- Left out of a window are keys with rows in the queue, lanes that the relay may not take from, and messages that are not due or
-- have expired (with all of their key). Take puts them into the queue, and writes down what it left out: lanes and keys.
--
-- Restored dumps have the transaction numbers of another server; see rebase.

-- Which server's transaction numbers these are. It reads a file, so it is asked once a session. Views call it with the reader's
-- search_path.
create function @schema@.cluster_id() returns bigint
    language plpgsql
as $$
declare
    v_id pg_catalog.text := pg_catalog.current_setting('outbox.cluster', true);
begin
    if coalesce(v_id, '') operator(pg_catalog.=) '' then
        select s.system_identifier::pg_catalog.text into v_id from pg_catalog.pg_control_system() s;
        v_id := pg_catalog.set_config('outbox.cluster', v_id, false);
    end if;
    return v_id::bigint;
end
$$;

-- Each shard begins with a window of nothing.
insert into @schema@.log_window (shard, open, complete, plain, size, remaining, id, cluster, base, high, from_ord, from_pos,
    to_ord, to_pos, before, upto, floor, purged, taken_at, swept)
select s.shard, false, true, true, 0, 0, 1, @schema@.cluster_id(), 0, 0, '0', 0, '18446744073709551615', 9223372036854775807,
       pg_current_snapshot(), pg_current_snapshot(), 1, 1, clock_timestamp(), clock_timestamp()
  from @schema@.log_shard s;

-- The messages between a window's two ends, in their order, those left out included.
create function @schema@.log_range(w @schema@.log_window) returns setof @schema@.message
    language plpgsql security definer -- window_messages calls it with the relay's rights
    set search_path = pg_catalog, pg_temp
    set enable_seqscan = off
    set enable_bitmapscan = off
    set plan_cache_mode = force_generic_plan -- a plan costs more than what it reads
as $$
declare
    v_first constant xid8 := pg_snapshot_xmax(w.before);
    v_running xid8[];
begin
    if w.from_ord < v_first then
        v_running := array(select pg_snapshot_xip(w.before));
        return query
            select m.* from @schema@.message m
             where m.shard = w.shard and m.ord = any (v_running) and m.xid is null and (m.ord, m.pos) > (w.from_ord, w.from_pos)
               and (m.ord, m.pos) <= (w.to_ord, w.to_pos) and m.pos > w.base and m.pos <= w.high and pg_visible_in_snapshot(m.ord, w.upto)
            union all
            select m.* from @schema@.message m
             where m.shard = w.shard and m.xid = any (v_running) and m.xid is not null and m.ord < v_first
               and (m.ord, m.pos) > (w.from_ord, w.from_pos) and (m.ord, m.pos) <= (w.to_ord, w.to_pos) and m.pos > w.base
               and m.pos <= w.high and pg_visible_in_snapshot(m.xid, w.upto)
            order by ord, pos;
        return;
    end if;
    return query
        select m.* from @schema@.message m
         where m.shard = w.shard and (m.ord, m.pos) > (w.from_ord, w.from_pos) and (m.ord, m.pos) <= (w.to_ord, w.to_pos)
           and m.ord < pg_snapshot_xmax(w.upto) and m.pos > w.base and m.pos <= w.high
           and pg_visible_in_snapshot(coalesce(m.xid, m.ord), w.upto)
         order by m.ord, m.pos;
end
$$;

-- Whether a message of its range is in the window. Inlined.
create function @schema@.handed_out(lane bigint, sid bigint, due timestamptz, expires_at timestamptz, denied bigint[], keys bigint[],
    taken_at timestamptz) returns boolean
    language sql immutable
as $$
    select (denied is null or lane operator(pg_catalog.<>) all (denied))
       and case when sid is null then (due is null or due operator(pg_catalog.<=) taken_at)
                                  and (expires_at is null or expires_at operator(pg_catalog.>) taken_at)
                else keys is null or sid operator(pg_catalog.<>) all (keys) end
$$;

-- The messages of open windows, for their holders: by nonce. A plain view, so that rows go from the scan to the wire. It has what
-- differs from message to message, no more: a column that is sent costs as much as a tenth of all else. The second part is for
-- windows of stragglers. space_: what the message's namespace has of its own.
create view @schema@.window_messages as
select m.id, m.namespace, m.topic, m.tenant_id, m.key, m.seq, m.dedupe_key, m.subject, m.recipient, m.headers, m.correlation_id,
       m.payload, m.body, m.content_type, m.priority::int as priority, m.created_at, m.expires_at, m.encoding, m.sid as stream, m.max_attempts::int as own_max_attempts,
       case when (select exists (select from @schema@.namespace n where n.name <> '*' and n.max_attempts is not null))
            then (select n.max_attempts::int from @schema@.namespace n where n.name = m.namespace) end as space_max_attempts,
       case when (select exists (select from @schema@.namespace n where n.name <> '*' and n.retry_base is not null))
            then (select (extract(epoch from n.retry_base) * 1000)::int from @schema@.namespace n where n.name = m.namespace) end
           as space_retry_base_ms,
       case when (select exists (select from @schema@.namespace n where n.name <> '*' and n.retry_cap is not null))
            then (select (extract(epoch from n.retry_cap) * 1000)::int from @schema@.namespace n where n.name = m.namespace) end
           as space_retry_cap_ms,
       t.nonce
  from @schema@.log_window t
 cross join lateral (
    (select * from @schema@.message m
      where t.from_ord >= pg_snapshot_xmax(t.before) and m.shard = t.shard and (m.ord, m.pos) > (t.from_ord, t.from_pos)
        and (m.ord, m.pos) <= (t.to_ord, t.to_pos) and m.ord < pg_snapshot_xmax(t.upto) and m.pos > t.base and m.pos <= t.high
        and pg_visible_in_snapshot(coalesce(m.xid, m.ord), t.upto)
        and (t.plain or @schema@.handed_out(m.lane, m.sid, m.due, m.expires_at, t.denied, t.keys, t.taken_at))
      order by m.ord, m.pos limit t.size)
    union all
    (select * from @schema@.log_range(t) m
      where t.from_ord < pg_snapshot_xmax(t.before)
        and @schema@.handed_out(m.lane, m.sid, m.due, m.expires_at, t.denied, t.keys, t.taken_at))) m
 where t.open and coalesce(current_setting('app.current_tenant_id', true), '') = '';

-- Puts messages of a window's range into the queue: those that were left out, or, where admitting, all. They are due since they
-- were enqueued, or, in their order, up to v_at.
-- The first of a key is not parked: what it waits for may be settled at this very moment, and that settle would not see it. A
-- claim will park it. One behind another of this call is parked: nobody can settle a row that is not committed. But not one that
-- is due later: whoever is parked waits for no time.
create function @schema@.admit_range(w @schema@.log_window, admitting boolean, v_at timestamptz) returns int
    language plpgsql
as $$
declare
    v_count int;
begin
    insert into @schema@.queue (id, lane, due, sid, seq, expires_at, tenant_id, bytes, max_attempts, prio, shard, parked)
    select m.id, m.lane,
           least(case when v_at is null then coalesce(m.due, m.created_at) else greatest(m.due,
               v_at - (count(*) over () - row_number() over (order by m.ord, m.pos)) * interval '1 microsecond') end, m.expires_at),
           m.sid, m.seq, m.expires_at, m.tenant_id, m.bytes,
           coalesce(m.max_attempts, n.max_attempts, s.max_attempts), m.priority, coalesce(m.sid % 16, -1),
           coalesce(lag(m.seq) over (partition by m.sid order by m.seq) = m.seq - 1 and (m.due is null or m.due <= w.taken_at), false)
      from @schema@.log_range(w) m
      join @schema@.namespace s on s.name = '*'
      left join @schema@.namespace n on n.name = m.namespace
     where admitting or not @schema@.handed_out(m.lane, m.sid, m.due, m.expires_at, w.denied, w.keys, w.taken_at);
    get diagnostics v_count = row_count;
    return v_count;
end
$$;

-- Of these messages, those that are settled, as far as a window is concerned: they have an attempt, or are in the queue, or dead.
create function @schema@.settled_of(ids uuid[]) returns uuid[]
    language plpgsql
    set plan_cache_mode = force_custom_plan -- see spans_of
as $$
declare
    v_spans constant record := @schema@.spans_of(array(select i from unnest(ids) i order by i));
begin
    return array(
        select t.id from unnest(ids) t(id)
         where exists (select from @schema@.queue q where q.id = t.id)
            or exists (select from @schema@.dead d where d.id = t.id)
            or exists (select from @schema@.attempt_stored a
                        where a.message_id = t.id and @schema@.within(a.message_id, v_spans.low, v_spans.high)));
end
$$;

-- A window whose worker did not come back: what is not settled goes to the queue as leases that have ended, which a claim takes
-- up as it does with any other. False: somebody is settling just now.
create function @schema@.repair_window(w @schema@.log_window) returns boolean
    language plpgsql
as $$
declare
    v_ids uuid[];
begin
    perform from @schema@.log_window k where k.shard = w.shard and k.id = w.id and k.open for update skip locked;
    if not found then
        return false;
    end if;
    v_ids := array(select m.id from @schema@.log_range(w) m
                    where @schema@.handed_out(m.lane, m.sid, m.due, m.expires_at, w.denied, w.keys, w.taken_at));
    perform @schema@.lease_rows(array(select i from unnest(v_ids) i where i <> all (@schema@.settled_of(v_ids))), w.taken_at, w.holder, w.until);
    update @schema@.log_window k set open = false, remaining = 0 where k.shard = w.shard and k.id = w.id;
    return true;
end
$$;

-- Messages of a window that go on as rows of the queue, leased.
create function @schema@.lease_rows(ids uuid[], v_since timestamptz, worker text, v_until timestamptz) returns void
    language plpgsql
    set plan_cache_mode = force_custom_plan -- see spans_of
as $$
declare
    v_spans constant record := @schema@.spans_of(array(select i from unnest(ids) i order by i));
begin
    insert into @schema@.queue (id, lane, due, until, since, sid, seq, expires_at, tenant_id, attempts, retry_base, retry_cap, bytes,
        spent, max_attempts, ceiling, prio, shard, holder)
    select m.id, m.lane, least(coalesce(m.due, m.created_at), m.expires_at), v_until, v_since, m.sid, m.seq, m.expires_at, m.tenant_id,
           1, extract(epoch from coalesce(n.retry_base, s.retry_base)) * 1000, extract(epoch from coalesce(n.retry_cap, s.retry_cap)) * 1000,
           m.bytes, 1, b.budget, b.budget, m.priority, coalesce(m.sid % 16, -1), worker
      from unnest(ids) t(id)
     cross join lateral (select * from @schema@.message x
                          where x.id = t.id and @schema@.within(x.id, v_spans.low, v_spans.high) offset 0) m
      join @schema@.namespace s on s.name = '*'
      left join @schema@.namespace n on n.name = m.namespace
     cross join lateral (select coalesce(m.max_attempts, n.max_attempts, s.max_attempts) as budget) b;
end
$$;

-- Which shards have something for a taker, or something to repair, in an order that begins elsewhere with each turn; busy: one has
-- messages behind an open window. No locks. Where the numbers are those of another server, a shard is always ready: its numbers
-- cannot tell whether it has something, and who takes from it will notice.
--
-- Quiet. A message's transaction has its number before its pos. So when no shard has anything, no window is open and no transaction
-- with a number is running, everything up to the pos that the sequence had before is settled, and stays so. That is written down
-- once, and then a look costs next to nothing: also in an outbox that does not use the log, however many partitions it has.
create function @schema@.look(turn bigint, out ready int[], out busy boolean)
    language plpgsql
as $$
#variable_conflict use_column
declare
    v_now constant timestamptz := clock_timestamp();
    v_pos constant bigint := coalesce(pg_sequence_last_value('@schema@.pos'::regclass), 0);
    v_cluster constant bigint := @schema@.cluster_id();
    v_calm boolean;
    v_next xid8;
    v_behind int[];
begin
    busy := false;
    if v_pos = (select q.pos from @schema@.log_quiet q) then
        return;
    end if;
    select array_agg(x.shard order by (x.shard + 1 + turn) % 9) filter (where x.away or x.ended or x.waiting and not x.taken),
           coalesce(bool_or(x.waiting and x.taken and not x.ended), false),
           not bool_or(x.away or x.ended or x.waiting or x.taken) and pg_snapshot_xmin(pg_current_snapshot()) = pg_snapshot_xmax(pg_current_snapshot()),
           pg_snapshot_xmax(pg_current_snapshot()),
           array_agg(x.shard) filter (where x.behind and not x.away and not x.ended and not x.waiting)
      into ready, busy, v_calm, v_next, v_behind
      from (select s.shard, s.shard >= 0 and t.open as taken,
                   t.cluster <> v_cluster or t.next > pg_snapshot_xmax(pg_current_snapshot()) as away,
                   case when s.shard >= 0 then t.open and t.until <= v_now
                        else t.swept < v_now - interval '0.5 s' and exists (select from @schema@.log_window k
                             where k.shard = s.shard and k.id >= t.floor and k.open and k.until <= v_now) end as ended,
                   not t.complete
                   or exists (select from @schema@.message m where m.shard = s.shard and m.ord >= t.next and m.pos > t.base) as waiting,
                   pg_snapshot_xmin(t.upto) <> t.next as behind
              from @schema@.log_shard s
             cross join lateral (select k.*, pg_snapshot_xmax(k.upto) as next from @schema@.log_window k where k.shard = s.shard
                                  order by k.shard desc, k.id desc limit 1) t
             where s.shard < 0 or t.open or (select exists (select from @schema@.stream)) -- no stream: no message has a key
            offset 0) x; -- so that nothing of it is there twice
    if v_behind is not null then
        select ready || array_agg(x.shard) filter (where not x.taken), busy or coalesce(bool_or(x.taken), false), v_calm and count(*) = 0
          into ready, busy, v_calm
          from (select b.shard, b.shard >= 0 and t.open as taken
                  from unnest(v_behind) b(shard)
                 cross join lateral (select k.*, pg_snapshot_xmax(k.upto) as next from @schema@.log_window k where k.shard = b.shard
                                      order by k.shard desc, k.id desc limit 1) t
                 where exists (select from @schema@.message m where m.shard = b.shard and m.ord in (select pg_snapshot_xip(t.upto))
                                  and m.xid is null and m.pos > t.base)
                    or exists (select from @schema@.message m where m.shard = b.shard and m.xid in (select pg_snapshot_xip(t.upto))
                                  and m.xid is not null and m.ord < t.next and m.pos > t.base)) x;
    end if;
    if v_calm and not exists (select from @schema@.log_shard s
            cross join lateral (select k.floor from @schema@.log_window k where k.shard = s.shard order by k.id desc limit 1) t
            cross join lateral (select from @schema@.log_window k where k.shard = s.shard and k.id >= t.floor and k.open) k) then
        -- A snapshot does not know of those whose numbers are higher than that of the last that ended. Our own number tells.
        if pg_current_xact_id() = v_next then
            update @schema@.log_quiet q set pos = v_pos
             where q.ctid = any (array(select x.ctid from @schema@.log_quiet x for update skip locked));
        end if;
    end if;
end
$$;

-- What a page of the log has: the first messages of a range that has no end yet.
create type @schema@.page as (count int, bytes bigint, ord xid8, pos bigint, special boolean, sids bigint[]);

create function @schema@.read_page(w @schema@.log_window, stragglers boolean, running xid8[], most int) returns @schema@.page
    language plpgsql
as $$
declare
    p @schema@.page;
    v_first constant xid8 := pg_snapshot_xmax(w.before);
begin
    if stragglers then
        select count(*), sum(x.bytes), (array_agg(x.ord))[most], (array_agg(x.pos))[most],
               bool_or(x.due is not null or x.expires_at is not null), array_agg(x.sid)
          into p
          from (select x.* from (
                select m.ord, m.pos, m.sid, m.bytes, m.due, m.expires_at from @schema@.message m
                 where m.shard = w.shard and m.ord = any (running) and m.xid is null
                   and (m.ord, m.pos) > (w.from_ord, w.from_pos) and m.pos > w.base and pg_visible_in_snapshot(m.ord, w.upto)
                union all
                select m.ord, m.pos, m.sid, m.bytes, m.due, m.expires_at from @schema@.message m
                 where m.shard = w.shard and m.xid = any (running) and m.xid is not null and m.ord < v_first
                   and (m.ord, m.pos) > (w.from_ord, w.from_pos) and m.pos > w.base and pg_visible_in_snapshot(m.xid, w.upto)
                ) x order by x.ord, x.pos limit most) x;
    elsif w.shard >= 0 then
        select count(*), sum(x.bytes), (array_agg(x.ord))[most], (array_agg(x.pos))[most],
               bool_or(x.due is not null or x.expires_at is not null), array_agg(x.sid)
          into p
          from (select m.ord, m.pos, m.sid, m.bytes, m.due, m.expires_at from @schema@.message m
                 where m.shard = w.shard and (m.ord, m.pos) > (w.from_ord, w.from_pos) and m.ord < pg_snapshot_xmax(w.upto)
                   and m.pos > w.base and pg_visible_in_snapshot(coalesce(m.xid, m.ord), w.upto)
                 order by m.ord, m.pos limit most) x;
    else
        select count(*), sum(x.bytes), (array_agg(x.ord))[most], (array_agg(x.pos))[most],
               bool_or(x.due is not null or x.expires_at is not null), null
          into p
          from (select m.ord, m.pos, m.bytes, m.due, m.expires_at from @schema@.message m
                 where m.shard = w.shard and (m.ord, m.pos) > (w.from_ord, w.from_pos) and m.ord < pg_snapshot_xmax(w.upto)
                   and m.pos > w.base and pg_visible_in_snapshot(m.ord, w.upto)
                 order by m.ord, m.pos limit most) x;
    end if;
    return p;
end
$$;

-- How many of a page's messages fit: in bytes, and so that no key has more than its part, but for keys with rows in the queue: they will
-- be left out. At least one.
create function @schema@.page_fit(w @schema@.log_window, most int, max_bytes bigint, per_key int) returns int
    language sql
as $$
    select greatest(1, coalesce(min(x.n) filter (where x.bytes > max_bytes
               or x.nth > per_key and (select true from @schema@.queue q where q.sid = x.sid limit 1) is null) - 1, most))::int
      from (select m.sid, row_number() over o as n, sum(m.bytes) over o as bytes,
                   case when m.sid is not null then row_number() over (partition by m.sid order by m.ord, m.pos) end as nth
              from (select * from @schema@.log_range(w) limit most) m window o as (order by m.ord, m.pos)) x
$$;

-- Lanes of a window's range that the taker may not take from: out of its scope, or of a namespace that has no log.
create function @schema@.denied_lanes(w @schema@.log_window, s @schema@.scope, no_log boolean) returns bigint[]
    language sql
as $$
    select array_agg(l.lane)
      from (select distinct m.lane from @schema@.log_range(w) m) l
     where not @schema@.allows(s, l.lane)
        or no_log and exists (select from @schema@.lane x, @schema@.namespace n
                               where x.id = l.lane and n.name in (x.namespace, '*')
                              having (array_agg(n.lane order by n.name = '*') filter (where n.lane is not null))[1] = 'queue')
$$;

-- Keys of a window's range that are left out: those with rows in the queue, and those with a message that is not due, or expired,
-- or of a lane that is left out (a key may have messages of several topics). For each key one look into the index: a join may read all of a
-- queue that has no statistics yet.
create function @schema@.left_keys(w @schema@.log_window, sids bigint[], special boolean) returns bigint[]
    language plpgsql
as $$
declare
    v_keys bigint[];
begin
    select array_agg(k.sid) into v_keys
      from (select distinct s.sid from unnest(sids) s(sid) offset 0) k
     where (select true from @schema@.queue q where q.sid = k.sid limit 1);
    if special or w.denied is not null then
        v_keys := v_keys || array(select distinct m.sid from @schema@.log_range(w) m
                                   where m.due > w.taken_at or m.expires_at <= w.taken_at or m.lane = any (w.denied));
    end if;
    return v_keys;
end
$$;

-- Whether one topic or tenant holds up the others of this shard: its first message has waited for half a second, at the pace of
-- the last windows it will take a second or more to get through what is there, and there are others. Then all of it had better
-- be in the queue, where each gets its turn. Those who claim put everything there anyhow, and need not know the pace. Looked at only
-- while pages are full.
create function @schema@.is_flooded(w @schema@.log_window, v_now timestamptz, admitting boolean) returns boolean
    language plpgsql
as $$
declare
    m record;
    v_pace double precision; -- messages a second
begin
    select x.created_at, x.pos, x.lane, x.tenant_id into m from @schema@.message x
     where x.shard = w.shard and (x.ord, x.pos) > (w.from_ord, w.from_pos) and x.pos > w.base
     order by x.ord, x.pos limit 1;
    if m.created_at > v_now - interval '0.5 s'
            or m.tenant_id is null and not exists (select from @schema@.lane l where l.id <> m.lane) then
        return false;
    end if;
    if admitting then
        return true;
    end if;
    select sum(k.size) / greatest(extract(epoch from v_now - min(k.taken_at)), 0.001) into v_pace
      from @schema@.log_window k where k.shard = w.shard and k.id >= w.id - 16 and k.size > 0 and k.taken_at > v_now - interval '10 s'
    having count(*) >= 4;
    return coalesce((pg_sequence_last_value('@schema@.pos'::regclass) - m.pos) / v_pace > 1, false);
end
$$;

-- Locks a shard that another has locked, as soon as it is free. That is not long; false: it was.
create function @schema@.wait_for_shard(p_shard int) returns boolean
    language plpgsql
    set lock_timeout = '100 ms'
as $$
begin
    perform from @schema@.log_shard x where x.shard = p_shard for update;
    return true;
exception when lock_not_available then
    return false;
end
$$;

-- Opens the next window of a shard. size 0: there is none for this taker; busy: another is at it. waiting: if another is, wait until
-- it is done. Only for who has locked no other shard. admitted: how many went to the
-- queue instead; where admitting, all do. per_key: so many of a key at most, then the window ends.
create function @schema@.take_from(p_shard int, worker text, most int, lease interval, p_nonce bigint, max_bytes bigint, per_key int,
    s @schema@.scope, no_log boolean, admitting boolean, v_at timestamptz, waiting boolean, out id bigint, out size int, out complete boolean, out busy boolean, out admitted int, out taken_at timestamptz,
    out until timestamptz)
    language plpgsql
as $$
#variable_conflict use_variable
declare
    top_ord constant xid8 := '18446744073709551615';
    top_pos constant bigint := 9223372036854775807;
    v_now constant timestamptz := clock_timestamp();
    t @schema@.log_window; -- the newest
    w @schema@.log_window; -- the one to be
    o @schema@.log_window;
    p @schema@.page;
    v_most int;
    v_floor bigint;
    v_first xid8;  -- the first transaction after before
    v_running xid8[];
    v_stragglers boolean;
    v_fresh boolean;
    v_cut boolean;
    v_ahead numeric;
begin
    id := null;
    size := 0;
    admitted := 0;
    complete := true;
    busy := false;
    perform from @schema@.log_shard x where x.shard = p_shard for update skip locked;
    if not found then
        if not waiting or not @schema@.wait_for_shard(p_shard) then
            busy := true;
            return;
        end if;
    end if;
    for v_round in 1..100 loop
        -- A statement after the lock: it sees what its last holder wrote.
        select * into t from @schema@.log_window k where k.shard = p_shard order by k.shard desc, k.id desc limit 1;
        w := t;
        w.upto := pg_current_snapshot();
        if (t.cluster::text = current_setting('outbox.cluster', true)) is not true and t.cluster <> @schema@.cluster_id()
                or pg_snapshot_xmax(t.upto) > pg_snapshot_xmax(w.upto) then
            raise exception 'the log has transaction numbers of another server' using errcode = 'OB009',
                hint = format('After a restore: select %I.rebase(). A relay does it by itself.', @schema_text@);
        end if;
        v_floor := t.floor;
        if p_shard >= 0 then
            if t.open then
                if t.until > v_now or not @schema@.repair_window(t) then
                    return;
                end if;
            end if;
            v_floor := t.id;
        elsif v_round = 1 and v_now > t.swept + interval '0.5 s' then
            -- Windows that nobody closed; the oldest that is still open is where the next look begins.
            v_floor := t.id;
            for o in select * from @schema@.log_window k where k.shard = p_shard and k.id >= t.floor and k.open order by k.id loop
                if o.until > v_now or not @schema@.repair_window(o) then
                    v_floor := least(v_floor, o.id);
                end if;
            end loop;
            w.swept := v_now;
        end if;

        w.id := t.id + 1;
        w.nonce := null;
        w.floor := v_floor;
        w.holder := worker;
        w.taken_at := v_now;
        w.until := v_now + lease;
        w.denied := null;
        w.keys := null;
        v_fresh := t.complete;
        if v_fresh then
            w.before := t.upto;
            w.from_ord := '0';
            w.from_pos := 0;
            w.high := coalesce(pg_sequence_last_value('@schema@.pos'::regclass), 0); -- read after upto
        else
            w.upto := t.upto;
            w.from_ord := t.to_ord;
            w.from_pos := t.to_pos;
        end if;
        v_first := pg_snapshot_xmax(w.before);
        v_most := most;
        v_running := null;
        p := null;

        v_stragglers := w.from_ord < v_first;
        if v_stragglers then
            if pg_snapshot_xmin(w.before) <> v_first then
                v_running := array(select pg_snapshot_xip(w.before));
                if cardinality(v_running) > 0 then
                    p := @schema@.read_page(w, true, v_running, v_most);
                end if;
            end if;
            if coalesce(p.count, 0) = 0 then
                v_stragglers := false;
                w.from_ord := v_first;
                w.from_pos := 0;
            end if;
        end if;
        if not v_stragglers then
            p := @schema@.read_page(w, false, null, v_most);
        end if;
        if p.count = v_most and v_most < 5000 and (admitting or w.id % 4 = 0) then
            if @schema@.is_flooded(w, v_now, admitting) then
                admitting := true;
                v_most := 5000;
                p := @schema@.read_page(w, v_stragglers, v_running, v_most);
            end if;
        end if;
        if not admitting then
            v_cut := p.bytes > max_bytes;
            if p_shard >= 0 and p.count > per_key then
                v_cut := v_cut or exists (select from (select x.sid from unnest(p.sids) x(sid) group by x.sid having count(*) > per_key offset 0) x
                                           where (select true from @schema@.queue q where q.sid = x.sid limit 1) is null);
            end if;
            if v_cut then
                w.to_ord := case when p.count = v_most then p.ord when v_stragglers then v_first else top_ord end;
                w.to_pos := case when p.count = v_most then p.pos when v_stragglers then 0 else top_pos end;
                v_most := @schema@.page_fit(w, v_most, max_bytes, per_key);
                p := @schema@.read_page(w, v_stragglers, v_running, v_most);
            end if;
        end if;
        complete := not v_stragglers and p.count < v_most;
        w.complete := complete;
        w.to_ord := case when p.count = v_most then p.ord when v_stragglers then v_first else top_ord end;
        w.to_pos := case when p.count = v_most then p.pos when v_stragglers then 0 else top_pos end;
        w.size := 0;
        w.remaining := 0;
        w.open := false;
        w.plain := true;

        if p.count = 0 then
            -- Nothing. A range that began earlier is at its end: look into the next one. Now and then the cursor goes on over
            -- nothing, so that the next look has less to look at.
            v_ahead := pg_snapshot_xmax(w.upto)::text::numeric - v_first::text::numeric;
            if v_fresh and not (v_floor >= t.floor + 100 or v_ahead >= 10000
                    or v_now > t.taken_at + interval '10 s' and (v_ahead >= 1000 or v_ahead > 0 and cardinality(v_running) > 0)) then
                return;
            end if;
            insert into @schema@.log_window select w.*;
            if v_fresh then
                return;
            end if;
            continue;
        end if;

        if w.id % 256 = 0 and least(w.floor, w.id - 512) > w.purged then -- each just once, so that nobody walks over what is dead
            delete from @schema@.log_window k where k.shard = p_shard and k.id >= w.purged and k.id < least(w.floor, w.id - 512);
            w.purged := least(w.floor, w.id - 512);
        end if;
        if admitting then
            admitted := @schema@.admit_range(w, true, v_at);
        else
            if not s.open or no_log then
                w.denied := @schema@.denied_lanes(w, s, no_log);
            end if;
            if p_shard >= 0 then
                w.keys := @schema@.left_keys(w, p.sids, p.special);
            end if;
            if w.denied is not null or w.keys is not null or p.special then
                admitted := @schema@.admit_range(w, false, null);
            end if;
            w.size := p.count - admitted;
            w.remaining := w.size;
            w.open := w.size > 0;
            w.plain := admitted = 0;
            w.nonce := case when w.open then p_nonce end;
        end if;
        insert into @schema@.log_window select w.*;
        id := w.id;
        size := w.size;
        taken_at := w.taken_at;
        until := w.until;
        return;
    end loop;
end
$$;

-- Takes a window for a relay; window_messages then has its messages, best read in the next transaction, so that the shard's row is not
-- locked while they are sent. Nor while the disk writes: the transaction of the take may commit without waiting for that, if
-- the next one locks the window (confirm_window) and waits. Many may take windows of messages without a key, so there one
-- waits for the other; a shard of keys that is being taken has nothing for the next anyhow. nonce: the relay's, never used before, positive. hint: a shard to try first. more: there is more to
-- take. busy: there is more, but only behind an open window, or another is just taking it. queued: the queue has rows. The rest is what
-- the window's messages have in common, unless they or their namespace have their own.
create function @schema@.take(worker text, "limit" int, lease interval, nonce bigint, hint int default null, max_bytes bigint default null,
    run int default 16, skip_namespaces text[] default null, skip_topics text[] default null, rule_namespaces text[] default null,
    rule_topics text[] default null, rule_skips boolean[] default null, out shard int, out id bigint, out size int, out more boolean,
    out busy boolean, out queued boolean, out taken_at timestamptz, out until timestamptz, out max_attempts int, out retry_base_ms int,
    out retry_cap_ms int)
    language plpgsql security definer
    set search_path = pg_catalog, pg_temp
    set jit = off
    set enable_seqscan = off
    set enable_bitmapscan = off
    set enable_hashjoin = off
    set enable_mergejoin = off
    set plan_cache_mode = force_generic_plan
as $$
#variable_conflict use_variable
declare
    v_fine boolean; -- only so that a check is not a statement
    v_scope @schema@.scope;
    v_seen record;
    v_step record;
    v_shards int[];
    v_no_log boolean;
    v_admitted boolean := false;
    v_tried int := 0;
begin
    if current_setting('transaction_isolation') <> 'read committed' or worker is null or octet_length(worker) not between @worker_min@ and @worker_max@
            or "limit" is null or "limit" not between @claim_min@ and @claim_max@ or run is null or run not between @run_min@ and @run_max@
            or lease is null or lease not between '@lease_min@ us' and '@lease_max@ us' or max_bytes < 1 then
        v_fine := @schema@.check_isolation() and @schema@.check_claim(worker, "limit", lease, null, run, null, null, max_bytes);
    end if;
    if coalesce(current_setting('app.current_tenant_id', true), '') <> '' then
        raise exception 'a session with a tenant takes no windows' using errcode = 'OB002', hint = 'Call claim.';
    end if;
    if coalesce(nonce, 0) < 1 then
        raise exception '"nonce" is %', coalesce(nonce::text, 'null') using errcode = 'OB001', hint = 'Give a positive number that was never used.';
    end if;
    size := 0;
    more := false;
    busy := false;
    select exists (select from @schema@.queue q where not q.parked),
           n.max_attempts, extract(epoch from n.retry_base) * 1000, extract(epoch from n.retry_cap) * 1000,
           exists (select from @schema@.namespace x where x.lane = 'queue'),
           not exists (select from @schema@.pause p where p.sink is null)
      into queued, max_attempts, retry_base_ms, retry_cap_ms, v_no_log, v_scope.open
      from @schema@.namespace n where n.name = '*';
    if hint is null then
        v_seen := @schema@.look(nonce);
        busy := v_seen.busy;
        if v_seen.ready is null then
            return;
        end if;
    end if;
    v_scope.open := v_scope.open and skip_namespaces is null and rule_namespaces is null;
    if not v_scope.open then
        if exists (select from @schema@.pause p where p.namespace is null and p.sink is null and p.topic is null) then
            return;
        end if;
        v_scope := @schema@.scope_of(null, null, null, null, skip_namespaces, skip_topics, rule_namespaces, rule_topics, rule_skips, 32);
    end if;
    v_shards := array[hint];
    for v_round in 1..2 loop
        if v_round = 2 then
            v_seen := @schema@.look(nonce);
            busy := busy or v_seen.busy;
        end if;
        if v_round = 2 or hint is null then
            v_shards := coalesce(v_seen.ready, '{}');
        end if;
        v_tried := 0;
        foreach shard in array v_shards loop
            v_tried := v_tried + 1;
            v_step := @schema@.take_from(shard, worker, "limit", lease, nonce, max_bytes, greatest(run, "limit" / 8), v_scope, v_no_log,
                false, null, shard < 0 and v_tried = 1);
            id := v_step.id;
            size := v_step.size;
            busy := busy or v_step.busy;
            more := more or not v_step.complete;
            v_admitted := v_admitted or v_step.admitted > 0;
            exit when size > 0;
        end loop;
        more := more or v_tried < cardinality(v_shards);
        exit when size > 0 or hint is null;
    end loop;
    if size = 0 then
        shard := null;
        id := null;
    else
        taken_at := v_step.taken_at;
        until := v_step.until;
    end if;
    queued := queued or v_admitted;
end
$$;

-- Whether there is an open window of this nonce. Its row is locked only so that there is something to commit: what waits for this
-- commit to be on disk, and with the standby, knows the same of the take before.
create function @schema@.confirm_window(p_nonce bigint) returns boolean
    language plpgsql security definer
    set search_path = pg_catalog, pg_temp
as $$
begin
    perform from @schema@.log_window k where k.nonce = p_nonce and k.open for key share;
    return found;
end
$$;

-- The next pieces of the log, of every shard that has any, into the queue: for those who claim. Returns how many messages.
create function @schema@.admit(most int, at timestamptz default null) returns bigint
    language plpgsql
as $$
declare
    v_shard int;
    v_step record;
    v_count bigint := 0;
begin
    foreach v_shard in array coalesce((@schema@.look(0)).ready, '{}') loop
        v_step := @schema@.take_from(v_shard, null, most, null, null, null, null, null, false, true, at, false);
        v_count := v_count + v_step.admitted;
    end loop;
    return v_count;
end
$$;

-- Messages of a window that were delivered. Many together are one row: it costs a tenth of what a row for each does. Hooks, and
-- what is kept apart by tenant, need a row for each.
create function @schema@.record_delivered(ids uuid[], latencies bigint[], codes text[], refs text[], tenants uuid[], outputs jsonb[],
    v_since timestamptz, worker text, v_now timestamptz) returns boolean
    language plpgsql
as $$
declare
    v_hooks constant boolean := exists (select from @schema@.hook);
    v_sorted uuid[];
begin
    if cardinality(ids) < 16 or tenants is not null or v_hooks then
        insert into @schema@.attempt (message_id, attempt_no, outcome, spent, latency, claimed_at, completed_at, tenant_id, worker, code, reference)
        select u.id, 1, 1, 1, case when u.latency is not null then least(u.latency / 1000, 2147483647) end, v_since, v_now, u.tenant,
               worker, left(u.code, @code_max@), left(u.ref, @reference_max@)
          from unnest(ids, latencies, tenants, codes, refs) u(id, latency, tenant, code, ref);
        if v_hooks then
            perform @schema@.fire('delivered', ids, @schema@.outputs_of(ids, ids, outputs));
        end if;
        return true;
    end if;
    v_sorted := array(select distinct i from unnest(ids) i order by i);
    if cardinality(v_sorted) <> cardinality(ids) then -- a row for each would be refused too
        raise exception 'a message is settled twice in one call' using errcode = 'OB001', hint = 'Name each message once.';
    end if;
    if @schema@.ten_seconds_of(v_sorted[1]) = @schema@.ten_seconds_of(v_sorted[cardinality(ids)]) then
        insert into @schema@.attempt (message_id, attempt_no, outcome, spent, claimed_at, completed_at, worker, last_id, ids, latencies, codes, refs)
        values (v_sorted[1], 0, 1, 1, v_since, v_now, worker, v_sorted[cardinality(ids)], ids,
            array(select case when x.l is not null then least(x.l / 1000, 2147483647) end from (select unnest(latencies) as l) x),
            case when codes is not null then array(select left(x.c, @code_max@) from (select unnest(codes) as c) x) end,
            case when refs is not null then array(select left(x.r, @reference_max@) from (select unnest(refs) as r) x) end);
        return true;
    end if;
    insert into @schema@.attempt (message_id, attempt_no, outcome, spent, claimed_at, completed_at, worker, last_id, ids, latencies, codes, refs)
    select (array_agg(u.id order by u.id))[1], 0, 1, 1, v_since, v_now, worker, (array_agg(u.id order by u.id desc))[1],
           array_agg(u.id order by u.id), array_agg(case when u.latency is not null then least(u.latency / 1000, 2147483647) end order by u.id),
           case when codes is not null then array_agg(left(u.code, @code_max@) order by u.id) end,
           case when refs is not null then array_agg(left(u.ref, @reference_max@) order by u.id) end
      from unnest(ids, latencies, codes, refs) u(id, latency, code, ref)
     group by @schema@.ten_seconds_of(u.id);
    return true;
end
$$;

create function @schema@.check_remaining(remaining int, missing int) returns boolean
    language plpgsql immutable
as $$
begin
    if remaining < missing then
        raise exception 'a window has fewer messages than were settled' using errcode = 'OB001',
            hint = 'Settle each message once; give again => true after a call whose outcome is unknown.';
    end if;
    return true;
end
$$;

-- Where the items of each window end, if they are side by side and the windows in the order in which they are locked; else null.
create function @schema@.ends_of(shards int[], windows bigint[], item_windows int[]) returns int[]
    language plpgsql immutable
as $$
declare
    v_ends int[];
    v_next int := 1;
begin
    for i in 1 .. cardinality(shards) loop
        if i > 1 and (shards[i - 1], windows[i - 1]) >= (shards[i], windows[i]) then
            return null;
        end if;
        v_ends[i] := coalesce(array_position(item_windows, i + 1, v_next) - 1, cardinality(item_windows));
        if (i = all (item_windows[v_next : v_ends[i]])) is not true then
            return null;
        end if;
        v_next := v_ends[i] + 1;
    end loop;
    return case when v_next > cardinality(item_windows) then v_ends end;
end
$$;

-- The outcomes of messages of windows, numbered as in 006_settle.sql; null: still under way, it goes on as a row of the queue under
-- a lease. item_windows: of which of the windows each is. missing: how many of a window's messages were not there when it was
-- read (erased). tenants: those of the messages, null where none has one. again: an earlier call with some of these may have been
-- carried out; what is settled already is not settled or counted twice. A window is closed with its last message. Who
-- gives a message of a key to the queue gives with it, or before, all of that key that are before it: the order rests on it.
-- Returns only the items that are not simply ok.
create function @schema@.settle_window(shards int[], windows bigint[], nonces bigint[], missing int[], item_windows int[], ids uuid[],
    outcomes int[], codes text[] default null, errors text[] default null, refs text[] default null, outputs jsonb[] default null,
    delays bigint[] default null, latencies bigint[] default null, budgets int[] default null, tenants uuid[] default null,
    worker text default null, lease interval default '30 s', again boolean default false)
    returns table (ord int, result text, dead boolean)
    language plpgsql security definer
    set search_path = pg_catalog, pg_temp
    set jit = off
    set enable_seqscan = off
    set enable_hashjoin = off
    set enable_mergejoin = off
    set plan_cache_mode = force_generic_plan
as $$
#variable_conflict use_column
declare
    v_now constant timestamptz := clock_timestamp();
    v_count constant int := cardinality(ids);
    v_fine boolean;
    v_ends int[];
    v_first int;
    v_last int;
    v_settled uuid[];
    v_queued uuid[]; -- of those: went on under a lease, and wait for their outcome there
    v_since timestamptz[];
    v_holders text[];
    v_dead uuid[];
    v_unknown uuid[];
    r record;
    x record;
begin
    if current_setting('transaction_isolation') <> 'read committed' or lease is null or lease not between '@lease_min@ us' and '@lease_max@ us' then
        v_fine := @schema@.check_isolation() and @schema@.check_range('lease', extract(epoch from lease)::numeric, @lease_min_s@, @lease_max_s@, ' s',
            '@lease_range@');
    end if;
    if v_count is null or v_count > @settle_max@ or cardinality(item_windows) is distinct from v_count
            or cardinality(outcomes) is distinct from v_count or cardinality(codes) <> v_count
            or cardinality(errors) <> v_count or cardinality(refs) <> v_count or cardinality(outputs) <> v_count
            or cardinality(delays) <> v_count or cardinality(latencies) <> v_count or cardinality(budgets) <> v_count
            or cardinality(tenants) <> v_count or cardinality(windows) is distinct from cardinality(shards)
            or cardinality(nonces) is distinct from cardinality(shards) or cardinality(missing) is distinct from cardinality(shards) then
        raise exception 'the arrays have different lengths, or more than @settle_max@ elements' using errcode = 'OB001',
            hint = 'Give one window, id and outcome per message; optional arrays are as long, or null.';
    end if;
    -- Nearly always: all delivered, and those of a window side by side.
    if not again and 1 = all (outcomes) then
        v_ends := @schema@.ends_of(shards, windows, item_windows);
    end if;
    if v_ends is not null then
        for i in 1 .. cardinality(v_ends) loop
            v_first := coalesce(v_ends[i - 1], 0) + 1;
            v_last := v_ends[i];
            update @schema@.log_window k set remaining = k.remaining - (v_last - v_first + 1),
                   open = k.remaining - (v_last - v_first + 1) > missing[i]
             where k.shard = shards[i] and k.id = windows[i] and k.nonce = nonces[i] and k.open
               and (worker is null or starts_with(k.holder, worker))
            returning k.taken_at, k.holder, k.remaining into r;
            if not found then
                return query select g, 'lost', false from generate_series(v_first, v_last) g;
                continue;
            end if;
            v_fine := @schema@.check_remaining(r.remaining, missing[i]) and @schema@.record_delivered(ids[v_first : v_last],
                latencies[v_first : v_last], codes[v_first : v_last], refs[v_first : v_last], tenants[v_first : v_last],
                outputs[v_first : v_last], r.taken_at, r.holder, v_now);
        end loop;
        return;
    end if;
    if again then -- the earlier call may still run
        perform from @schema@.log_window k, generate_series(1, cardinality(shards)) n(n)
          where k.shard = shards[n.n] and k.id = windows[n.n] and k.nonce = nonces[n.n]
          order by k.shard, k.id for update of k;
        v_settled := @schema@.settled_of(ids);
        v_queued := array(select q.id from @schema@.queue q where q.id = any (v_settled) and q.attempts = 1 and q.until is not null
                             and (worker is null or starts_with(q.holder, worker)));
    end if;
    v_since := array_fill(null::timestamptz, array[cardinality(shards)]);
    v_holders := array_fill(null::text, array[cardinality(shards)]);
    for r in
        update @schema@.log_window k set remaining = k.remaining - w.items, open = k.remaining - w.items > w.missing
          from (select n.n, shards[n.n] as shard, windows[n.n] as id, nonces[n.n] as nonce, missing[n.n] as missing, i.items
                  from generate_series(1, cardinality(shards)) n(n)
                 cross join lateral (select count(*) as items from unnest(item_windows, ids) i(w, id)
                                      where i.w = n.n and (v_settled is null or i.id <> all (v_settled)) offset 0) i
                 order by 2, 3) w
         where k.shard = w.shard and k.id = w.id and k.nonce = w.nonce and k.open
           and (worker is null or starts_with(k.holder, worker))
        returning w.n, k.taken_at, k.holder, k.remaining, w.missing
    loop
        v_fine := @schema@.check_remaining(r.remaining, r.missing);
        v_since[r.n] := r.taken_at;
        v_holders[r.n] := r.holder;
    end loop;

    -- Those that become rows of the queue first: a message that fails must not be seen gone before it is there.
    for x in select u.w, array_agg(u.id) as ids
               from unnest(ids, item_windows, outcomes) u(id, w, outcome)
              where u.outcome is distinct from 1 and v_since[u.w] is not null and (v_settled is null or u.id <> all (v_settled))
              group by u.w loop
        perform @schema@.lease_rows(x.ids, v_since[x.w], v_holders[x.w], v_now + lease);
    end loop;
    select array_agg(u.id) as ids, array_agg(1::bigint) as tokens, array_agg(u.outcome) as outcomes, array_agg(u.code) as codes,
           array_agg(u.error) as errors, array_agg(u.ref) as refs, array_agg(u.output) as outputs, array_agg(u.delay) as delays,
           array_agg(u.latency) as latencies, array_agg(u.budget) as budgets
      into x
      from unnest(ids, item_windows, outcomes, codes, errors, refs, outputs, delays, latencies, budgets)
               u(id, w, outcome, code, error, ref, output, delay, latency, budget)
     where u.outcome <> 1 and v_since[u.w] is not null and (v_settled is null or u.id <> all (v_settled));
    if x.ids is not null then
        for r in select s.id, s.result, s.dead from @schema@.settle(x.ids, x.tokens, x.outcomes, x.codes, x.errors, x.refs, x.outputs,
                        x.delays, x.latencies, null, true, null, x.budgets) s loop
            if r.result <> 'ok' then
                v_unknown := v_unknown || r.id; -- erased meanwhile
            else
                v_dead := v_dead || r.id;
            end if;
        end loop;
    end if;

    if cardinality(v_queued) > 0 then
        select array_agg(u.id) as ids, array_agg(1::bigint) as tokens, array_agg(u.outcome) as outcomes, array_agg(u.code) as codes,
               array_agg(u.error) as errors, array_agg(u.ref) as refs, array_agg(u.output) as outputs, array_agg(u.delay) as delays,
               array_agg(u.latency) as latencies, array_agg(u.budget) as budgets
          into x
          from unnest(ids, outcomes, codes, errors, refs, outputs, delays, latencies, budgets)
                   u(id, outcome, code, error, ref, output, delay, latency, budget)
         where u.outcome is not null and u.id = any (v_queued);
        if x.ids is not null then
            perform @schema@.settle(x.ids, x.tokens, x.outcomes, x.codes, x.errors, x.refs, x.outputs, x.delays, x.latencies, null, true,
                worker, x.budgets);
        end if;
    end if;

    for x in select u.w, array_agg(u.id) as ids, array_agg(u.latency) as latencies, array_agg(u.code) as codes, array_agg(u.ref) as refs,
                    array_agg(u.tenant) as tenants, array_agg(u.output) as outputs
               from unnest(ids, item_windows, outcomes, latencies, codes, refs, tenants, outputs)
                        u(id, w, outcome, latency, code, ref, tenant, output)
              where u.outcome = 1 and v_since[u.w] is not null and (v_settled is null or u.id <> all (v_settled))
              group by u.w loop
        v_fine := @schema@.record_delivered(x.ids, x.latencies, case when codes is not null then x.codes end,
            case when refs is not null then x.refs end, case when tenants is not null then x.tenants end, x.outputs, v_since[x.w],
            v_holders[x.w], v_now);
    end loop;

    return query
        select u.ordinality::int, case when u.id = any (v_unknown) then 'unknown'
                                       when v_since[u.w] is not null or u.id = any (v_settled) then 'ok' else 'lost' end,
               u.id = any (v_dead) or u.id = any (v_settled) and exists (select from @schema@.dead d where d.id = u.id)
          from unnest(ids, item_windows) with ordinality u(id, w, ordinality)
         where v_since[u.w] is null or u.id = any (v_dead) or u.id = any (v_settled) or u.id = any (v_unknown)
         order by 1;
end
$$;

-- After a restore. What the old server's numbers say of the old rows stands: they are only compared with each other. Messages written
-- here since have a higher pos than any that the old cursor can have seen (high). What was not consumed goes to the queue, and
-- each shard begins anew. Producers under way are waited for, shortly: it is we who give up and come again, never a producer.
-- Returns how many messages went to the queue; -1: there is no need.
create function @schema@.rebase() returns bigint
    language plpgsql security definer
    set search_path = pg_catalog, pg_temp
    set jit = off
    set lock_timeout = '200 ms'
as $$
declare
    t @schema@.log_window;
    o @schema@.log_window;
    v_here pg_snapshot;
    v_pos bigint;
    v_moved bigint := 0;
    v_some bigint;
    v_shard int;
begin
    perform @schema@.check_isolation();
    perform @schema@.check_no_tenant();
    perform from @schema@.log_shard x order by x.shard for update;
    lock table @schema@.stream, @schema@.message in share row exclusive mode;
    v_here := pg_current_snapshot();
    if not exists (select from @schema@.log_shard x
                    cross join lateral (select k.cluster, k.upto from @schema@.log_window k where k.shard = x.shard order by k.id desc limit 1) k
                    where k.cluster <> @schema@.cluster_id() or pg_snapshot_xmax(k.upto) > pg_snapshot_xmax(v_here)) then
        return -1;
    end if;
    select x.last_value into v_pos from @schema@.pos x;
    -- Where the old server's numbers are ahead of ours, its keys' clocks would send new messages into a far future.
    update @schema@.stream k set ord = '3' where k.ord >= pg_snapshot_xmax(v_here);
    for v_shard in select x.shard from @schema@.log_shard x loop
        select * into t from @schema@.log_window k where k.shard = v_shard order by k.id desc limit 1;
        for o in select * from @schema@.log_window k where k.shard = v_shard and k.id >= t.floor and k.open loop
            perform @schema@.lease_rows(array(
                select m.id from @schema@.log_range(o) m -- messages written here may lie in the same range of numbers
                 where m.pos <= o.high and @schema@.handed_out(m.lane, m.sid, m.due, m.expires_at, o.denied, o.keys, o.taken_at)
                   and m.id <> all (@schema@.settled_of(array[m.id]))), o.taken_at, o.holder, least(o.until, clock_timestamp()));
            update @schema@.log_window k set open = false, remaining = 0 where k.shard = v_shard and k.id = o.id;
        end loop;
        insert into @schema@.queue (id, lane, due, sid, seq, expires_at, tenant_id, bytes, max_attempts, prio, shard)
        select m.id, m.lane, least(coalesce(m.due, m.created_at), m.expires_at), m.sid, m.seq, m.expires_at, m.tenant_id, m.bytes,
               coalesce(m.max_attempts, n.max_attempts, s.max_attempts), m.priority, coalesce(m.sid % 16, -1)
          from @schema@.message m
          join @schema@.namespace s on s.name = '*'
          left join @schema@.namespace n on n.name = m.namespace
         where m.shard = v_shard and m.pos > t.base
           and not (m.pos <= t.high and (pg_visible_in_snapshot(coalesce(m.xid, m.ord), t.before)
                    or pg_visible_in_snapshot(coalesce(m.xid, m.ord), t.upto) and (m.ord, m.pos) <= (t.to_ord, t.to_pos)));
        get diagnostics v_some = row_count;
        v_moved := v_moved + v_some;
        insert into @schema@.log_window (shard, open, complete, plain, size, remaining, id, cluster, base, high, from_ord, from_pos, to_ord, to_pos,
            before, upto, floor, purged, taken_at, swept)
        values (v_shard, false, true, true, 0, 0, t.id + 1, @schema@.cluster_id(), v_pos, v_pos, '0', 0, '18446744073709551615',
            9223372036854775807, v_here, v_here, t.id + 1, t.purged, clock_timestamp(), clock_timestamp());
    end loop;
    return v_moved;
end
$$;
