-- Views: the plain meaning of the tables. Each shows a session with app.current_tenant_id that tenant's rows, one of an
-- operator, auditor or relay without it all rows, and everybody else nothing.
--
-- messages, queued, dead_letters, acts and outbox belong to the owner of the tables, whom row security shows just that (policy "views" of
-- 019_rights.sql). So they need no security barrier, which would keep ORDER BY and LIMIT out: a page of them costs what
-- its rows cost. The others carry the condition themselves, behind a barrier.

-- The search_path is fixed, though it is not SECURITY DEFINER: the reader's could contain another pg_has_role.
create function @schema@.sees_all() returns boolean
    language sql stable
    set search_path = pg_catalog, pg_temp
as $$
    select pg_has_role(current_user, @schema_text@ || '_operator', 'usage')
        or pg_has_role(current_user, @schema_text@ || '_auditor', 'usage')
        or pg_has_role(current_user, @schema_text@ || '_relay', 'usage')
        or current_user = @schema_text@ || '_api' -- a function of ours, not a reader: no view runs as api
$$;

-- Attempts that have a row of their own.
create view @schema@.attempt_single as
    select a.message_id, a.attempt_no, a.outcome, a.spent, a.latency, a.claimed_at, a.completed_at, a.tenant_id, a.worker, a.code, a.error,
           a.reference from @schema@.attempt a where a.ids is null
    union all
    select a.message_id, a.attempt_no, a.outcome, a.spent, a.latency, a.claimed_at, a.completed_at, a.tenant_id, a.worker, a.code, a.error,
           a.reference from @schema@.attempt_kept a where a.ids is null;

-- Attempts that share a row with others: those of messages that are stored, found by the message's id.
create view @schema@.attempt_shared as
    select m.id as message_id, 1 as attempt_no, b.outcome, b.spent, b.latencies[b.place] as latency, b.claimed_at, b.completed_at, b.tenant_id,
           b.worker, b.codes[b.place] as code, null::text as error, b.refs[b.place] as reference
      from (select x.id from @schema@.message x union all select x.id from @schema@.message_kept x
            union all select x.id from @schema@.archived x) m
     cross join lateral (
        select a.*, array_position(a.ids, m.id) as place
          from (select * from @schema@.attempt union all select * from @schema@.attempt_kept) a
         where a.ids is not null and a.message_id >= @schema@.ten_seconds_of(m.id) and a.message_id <= m.id and a.last_id >= m.id
           and m.id = any (a.ids) limit 1) b;

create view @schema@.attempt_stored as
    select * from @schema@.attempt_single union all select * from @schema@.attempt_shared;

-- The log. A message that is only there has no row of its own in queue, dead or attempt; where it stands follows from its place and the
-- windows of its shard (007_log.sql). It waits if the newest window does not count it as consumed. Otherwise it is out for
-- delivery if it is in an open window. These views are of the owner of the tables too.
--
-- What the planner expects is far too much for conditions like these, and then it reads all messages. So bounds come in pairs (of a
-- range it expects a two-hundredth of the table, of half a range a third), and messages from subselects with OFFSET 0, which it
-- plans for themselves.

-- The newest window of each shard. Past (next_ord, next_pos) everything waits; before that, what transactions have written that were
-- running. Where its numbers are those of another server, it tells of the messages that came from there (see rebase); all that were
-- written here since wait, and that is a row of its own.
create view @schema@.log_head as
select s.shard::smallint as shard, h.*
  from generate_series(-1, 7) s(shard)
 cross join lateral (
    select k.*, k.cluster <> (select @schema@.cluster_id()) or pg_snapshot_xmax(k.upto) > pg_snapshot_xmax(pg_current_snapshot()) as away
      from @schema@.log_window k where k.shard = s.shard order by k.shard desc, k.id desc limit 1) w
 cross join lateral (
    select w.base, w.to_ord, w.to_pos, w.before, w.upto, w.floor, case when w.away then w.high else 9223372036854775807 end as last_pos,
           case when w.complete then pg_snapshot_xmax(w.upto) else greatest(w.to_ord, pg_snapshot_xmax(w.before)) end as next_ord,
           case when w.complete or w.to_ord < pg_snapshot_xmax(w.before) then 0 else w.to_pos end as next_pos,
           array(select pg_snapshot_xip(w.upto) union select pg_snapshot_xip(w.before) where not w.complete) as running
    union all
    select w.high, '0', 0, w.upto, w.upto, 9223372036854775807, 9223372036854775807, '0', 0, '{}' where w.away) h;

-- Messages that wait in the log.
create view @schema@.log_waiting as
select m.id, h.shard, m.pos, m.lane, m.sid, m.tenant_id, least(coalesce(m.due, m.created_at), m.expires_at) as due, m.leaf
  from @schema@.log_head h
 cross join lateral (
    select m.* from (
        select m.*, m.tableoid as leaf from @schema@.message m
         where m.shard = h.shard and m.ord = any (h.running) and m.xid is null
        union all
        select m.*, m.tableoid from @schema@.message m
         where m.shard = h.shard and m.xid = any (h.running)) m
     where m.pos > h.base and m.pos <= h.last_pos and (m.ord, m.pos) <= (h.next_ord, h.next_pos)
       and not (pg_visible_in_snapshot(coalesce(m.xid, m.ord), h.before)
             or pg_visible_in_snapshot(coalesce(m.xid, m.ord), h.upto) and (m.ord, m.pos) <= (h.to_ord, h.to_pos))
    union all
    select m.*, m.tableoid from @schema@.message m
     where m.shard = h.shard and (m.ord, m.pos) > (h.next_ord, h.next_pos) and m.pos > h.base and m.pos <= h.last_pos
    offset 0) m;

-- The first 10,000 that wait without a key, and the first 1,250 of each shard of keys. weight: for how many messages one stands, 1
-- unless there are more: then the sequence of positions tells how many there may be.
create view @schema@.log_sample as
select w.lane, w.due, w.pos, w.estimated,
       w.weight * least(1, (p.last_value + 1 - min(w.pos) over ()) / sum(w.weight) over ()) as weight
  from @schema@.pos p
 cross join (select n, case when n < 0 then 10000 else 1250 end from generate_series(-1, 7) n) s(shard, most)
 cross join lateral (
    select x.lane, x.due, x.pos, count(*) over () > s.most as estimated,
           case when count(*) over () > s.most then greatest(1, (p.last_value - min(x.pos) over ())::double precision
                                                               / greatest(1, max(x.pos) over () - min(x.pos) over ()))
                else 1 end as weight
      from (select l.lane, l.due, l.pos from @schema@.log_waiting l where l.shard = s.shard limit s.most + 1) x) w;

-- Messages of open windows that are not settled.
create view @schema@.log_taken as
select m.id, h.shard, m.pos, m.lane, m.sid, m.tenant_id, w.taken_at, w.until, w.holder, m.leaf
  from @schema@.log_head h
 cross join lateral (
    select k.*, pg_snapshot_xmax(k.before) as first_ord, least(k.to_ord, pg_snapshot_xmax(k.upto)) as last_ord,
           array(select pg_snapshot_xip(k.before)) as running
      from @schema@.log_window k where k.shard = h.shard and k.id >= h.floor and k.open offset 0) w
 cross join lateral (
    select x.* from (
        select m.*, m.tableoid as leaf from @schema@.message m
         where w.from_ord >= w.first_ord and m.shard = w.shard and m.ord >= w.from_ord and m.ord <= w.last_ord
        union all
        select m.*, m.tableoid from @schema@.message m
         where w.from_ord < w.first_ord and m.shard = w.shard and m.ord = any (w.running) and m.xid is null
        union all
        select m.*, m.tableoid from @schema@.message m
         where w.from_ord < w.first_ord and m.shard = w.shard and m.xid = any (w.running) and m.ord < w.first_ord) x
     where (x.ord, x.pos) > (w.from_ord, w.from_pos) and (x.ord, x.pos) <= (w.to_ord, w.to_pos) and x.pos > w.base and x.pos <= w.high
       and pg_visible_in_snapshot(coalesce(x.xid, x.ord), w.upto)
       and @schema@.handed_out(x.lane, x.sid, x.due, x.expires_at, w.denied, w.keys, w.taken_at)
       and not exists (select from @schema@.queue q where q.id = x.id)
       and not exists (select from @schema@.dead d where d.id = x.id)
       and not exists (select from @schema@.attempt_stored a where a.message_id = x.id offset 0) -- no join: it is for few
    offset 0) m;

create view @schema@.messages as
select m.id, m.namespace, m.topic, m.tenant_id, m.key, m.seq, m.dedupe_key, m.subject, m.recipient, m.correlation_id,
       case when d.id is not null then 'dead'
            when q.until is not null then 'processing'
            when q.id is not null then 'pending'
            when a.outcome = 1 then 'delivered'
            when l.waits then 'pending'
            when w.until is not null then 'processing'
            else 'discarded' end as status,
       coalesce(q.attempts, d.attempts, a.attempt_no, (w.until is not null)::int) as attempts,
       coalesce(q.spent, d.spent, a.spent, (w.until is not null)::int)::int as spent,
       coalesce(m.max_attempts, q.max_attempts, case d.reason when 'attempts' then d.spent end, d.budget,
           (select n.max_attempts from @schema@.namespace n where n.name = m.namespace),
           (select n.max_attempts from @schema@.namespace n where n.name = '*'))::int as max_attempts,
       case when m.max_attempts is not null then 'message' when coalesce(q.by_sink, d.by_sink) then 'sink' else 'namespace' end as max_attempts_from,
       coalesce(q.deferred, 0)::int as deferred,
       m.priority::int as priority,
       case when l.waits then least(coalesce(m.due, m.created_at), m.expires_at)
            when d.id is null and q.until is null then q.due end as next_attempt_at,
       case when d.id is null then coalesce(q.holder, w.holder) end as locked_by,
       case when d.id is null then coalesce(q.until, w.until) end as locked_until,
       coalesce(q.parked, false) and d.id is null as parked,
       coalesce(q.redriven, false) as redriven,
       case when a.outcome <> 1 then coalesce(d.code, a.code) else d.code end as last_code,
       case when a.outcome <> 1 then coalesce(d.error, a.error) else d.error end as last_error,
       d.reason as dead_reason,
       m.created_at,
       greatest(m.created_at, q.since, a.completed_at, d.died_at, w.taken_at,
                (select max(t.at) from @schema@.act t where t.message_id = m.id)) as updated_at,
       case when a.outcome = 1 and q.id is null and d.id is null then a.completed_at end as delivered_at,
       m.expires_at, m.headers, m.content_type, m.payload, m.body, m.encoding
  from (select * from @schema@.message union all select * from @schema@.message_kept) m
  -- No more than seven of these: together with one table beside the view, the planner still tries all orders (join_collapse_limit).
  left join @schema@.queue q on q.id = m.id
  left join @schema@.dead d on d.id = m.id
  left join lateral (select a.outcome, a.attempt_no, a.spent, a.code, a.error, a.completed_at
                       from @schema@.attempt_stored a
                      where a.message_id = m.id order by a.attempt_no desc limit 1) a on true
  -- Asked only of the few that are neither in the queue nor dead and have no attempt; the same as in log_waiting and log_taken.
  left join lateral (select k.floor, m.pos > k.base and not (m.pos <= k.high
                                and (pg_visible_in_snapshot(coalesce(m.xid, m.ord), k.before)
                                  or pg_visible_in_snapshot(coalesce(m.xid, m.ord), k.upto)
                                     and (m.ord, m.pos) <= (k.to_ord, k.to_pos))) as waits
                       from @schema@.log_window k
                      where k.shard = m.shard and q.id is null and d.id is null and a.outcome is null
                      order by k.shard desc, k.id desc limit 1) l on true
  left join lateral (select k.holder, k.until, k.taken_at
                       from @schema@.log_window k
                      where k.shard = m.shard and not l.waits and k.id >= l.floor and k.open
                        and (m.ord, m.pos) > (k.from_ord, k.from_pos) and (m.ord, m.pos) <= (k.to_ord, k.to_pos)
                        and m.pos > k.base and m.pos <= k.high
                        and pg_visible_in_snapshot(coalesce(m.xid, m.ord), k.upto)
                        and not pg_visible_in_snapshot(coalesce(m.xid, m.ord), k.before)
                        and @schema@.handed_out(m.lane, m.sid, m.due, m.expires_at, k.denied, k.keys, k.taken_at)
                      limit 1) w on true;

-- Messages that are neither delivered nor dead, read from the queue and the log: fast however many others there are.
create view @schema@.queued as
select w.id, m.namespace, m.topic, m.tenant_id, m.key, m.seq, m.dedupe_key, m.subject, m.recipient, m.correlation_id,
       case when w.until is null then 'pending' else 'processing' end as status, m.attempts, m.spent, m.max_attempts,
       m.max_attempts_from, m.deferred, m.priority, m.next_attempt_at, m.locked_by, m.locked_until, m.parked, m.redriven, m.last_code,
       m.last_error, m.dead_reason, m.created_at, m.updated_at, m.delivered_at, m.expires_at, m.headers,
       m.content_type, m.payload, m.body, m.encoding
  from (select q.id, q.until from @schema@.queue q where not q.held
        union all
        select l.id, null from @schema@.log_waiting l
        union all
        select t.id, t.until from @schema@.log_taken t
        order by 1 desc) w
 -- A message at a time, the newest first: a page of them needs only its own.
 cross join lateral (select * from @schema@.messages x where x.id = w.id offset 0) m;

-- How many messages wait in the log, up to 10,001.
create view @schema@.log_depth as
select count(*) as waiting from (select from @schema@.log_waiting l limit 10001) w;

-- What lists of messages begin with, in the order of ids: all messages, the queue, what waits in the log, what is in windows, dead letters,
-- and what was discarded. Each is one table or the like: of a union with conditions the planner would read all.
create view @schema@.listing_message as
select m.id, m.namespace, m.topic, m.tenant_id, m.key, m.subject, m.recipient, m.correlation_id from @schema@.message m
union all
select m.id, m.namespace, m.topic, m.tenant_id, m.key, m.subject, m.recipient, m.correlation_id from @schema@.message_kept m;

create view @schema@.listing_queue as
select q.id, q.until is null as pending, q.attempts > 0 as failed, q.fingerprint, q.since from @schema@.queue q where not q.held;

create view @schema@.listing_log as
select l.id from @schema@.log_waiting l;

create view @schema@.listing_window as
select t.id from @schema@.log_taken t;

create view @schema@.listing_dead as
select d.id, d.namespace, d.topic, d.tenant_id, d.key, d.subject, d.recipient, d.correlation_id, d.code, d.error, d.attempts,
       d.fingerprint, d.died_at
  from @schema@.dead d;

create view @schema@.listing_discarded as
select t.message_id as id from @schema@.act t where t.action in ('discard', 'move');

create view @schema@.attempts with (security_barrier) as
select a.message_id || '/' || a.attempt_no as attempt_id, a.message_id, a.attempt_no, m.namespace, m.topic, a.tenant_id,
       m.key, m.seq, m.subject, m.dedupe_key, m.correlation_id,
       (array['delivered', 'retry', 'failed', 'lost', 'limited', 'blocked', 'unknown', 'released',
           'interrupted', 'processing'])[coalesce(nullif(a.outcome, 0), 10)] as outcome,
       a.worker, a.claimed_at, a.completed_at, a.latency as latency_ms, a.code, a.error, a.reference
  from (select * from @schema@.attempt_stored
        union all
        select q.id, q.attempts, 0, q.spent, null, q.since, null, q.tenant_id, q.holder, null, null, null
          from @schema@.queue q where q.until is not null
        union all
        select t.id, 1, 0, 1, null, t.taken_at, null, t.tenant_id, t.holder, null, null, null from @schema@.log_taken t) a
  left join lateral (
       select s.namespace, s.topic, s.key, s.seq, s.subject, s.dedupe_key, s.correlation_id
         from @schema@.stored s where s.id = a.message_id
       union all
       select s.namespace, s.topic, s.key, s.seq, s.subject, s.dedupe_key, s.correlation_id
         from @schema@.dead s where s.id = a.message_id
       union all
       select s.namespace, s.topic, s.key, s.seq, s.subject, s.dedupe_key, s.correlation_id
         from @schema@.archived s where s.id = a.message_id
        limit 1) m on true
 where a.tenant_id = (select @schema@.current_tenant())
    or ((select @schema@.current_tenant()) is null and (select @schema@.sees_all()));

create view @schema@.dead_letters as
select d.id, d.namespace, d.topic, d.tenant_id, d.key, d.seq, d.dedupe_key, d.subject, d.recipient, d.correlation_id,
       d.reason, d.code, d.error, d.attempts, d.spent::int as spent,
       coalesce(d.max_attempts, case d.reason when 'attempts' then d.spent end, d.budget)::int as max_attempts,
       d.priority::int as priority, d.held, d.created_at, d.died_at, d.expires_at, d.headers, d.content_type, d.payload, d.body,
       d.encoding, lpad(to_hex(d.fingerprint), 16, '0') as fingerprint
  from @schema@.dead d;

create view @schema@.acts as
select t.id, t.at, t.actor, t.action, t.reason, t.message_id, t.tenant_id, t.detail
  from @schema@.act t;

-- What the view `status` shows, of every lane, at a cost that does not grow with the queue. Exact while the table of the queue, and that of
-- the dead letters, has no more than max_pages pages, and no shard of the log more than 10,000 messages. Beyond that the
-- counts come from samples (`estimated`). The oldest are looked at in any case, and a topic whose dead letters are few counts them by the
-- index: whatever waits longest or is rare is not missed.
create function @schema@.topics(max_pages int default 4096, max_count int default 10000)
    returns table (namespace text, topic text, pending bigint, due bigint, delayed bigint, retrying bigint, processing bigint, stuck bigint,
        parked bigint, dead bigint, oldest_due_s double precision, oldest_undelivered_s double precision, last_code text, last_error text,
        last_error_at timestamptz, estimated boolean, dead_last_hour bigint)
    language plpgsql stable security definer
    set search_path = pg_catalog, pg_temp
as $$
#variable_conflict use_column
declare
    v_now constant timestamptz := clock_timestamp();
    v_tenant constant uuid := @schema@.current_tenant();
    v_page constant bigint := current_setting('block_size')::bigint;
    v_percent constant real := least(100, 100.0 * max_pages / greatest(pg_relation_size('@schema@.queue') / v_page, 1));
    v_dead_percent constant real := least(100, 100.0 * max_pages / greatest(pg_relation_size('@schema@.dead') / v_page, 1));
    v_few int; -- dead letters of a topic that are counted by the index
begin
    v_few := greatest(100, 10 * max_count / greatest(1, (select count(*) from @schema@.lane)));
    return query
    with item as (
        select q.id, q.lane, q.until, q.since, q.due, q.parked, q.attempts, 100 / v_percent::double precision as weight
          from @schema@.queue q tablesample system (v_percent)
         where not q.held and (v_tenant is null or q.tenant_id = v_tenant)
        union all
        select q.*, 0
          from (select q.id, q.lane, q.until, q.since, q.due, q.parked, q.attempts from @schema@.queue q
                 where v_percent < 100 and not q.held and (v_tenant is null or q.tenant_id = v_tenant)
                   and pg_stat_get_dead_tuples('@schema@.queue'::regclass) < 50 * max_count
                 order by q.id limit max_count) q
    ), part as (
        select i.lane, sum(i.weight) filter (where i.until is null) as pending,
               sum(i.weight) filter (where i.until is null and not i.parked and i.due <= v_now) as due,
               sum(i.weight) filter (where i.until is null and not i.parked and i.due > v_now and i.attempts = 0) as delayed,
               sum(i.weight) filter (where i.until is null and i.attempts > 0) as retrying,
               sum(i.weight) filter (where i.until is not null) as processing,
               sum(i.weight) filter (where i.until <= v_now) as stuck,
               sum(i.weight) filter (where i.parked) as parked,
               min(i.due) filter (where i.until is null and i.due <= v_now) as oldest_due,
               min(i.due) filter (where i.attempts = 0 and i.due <= v_now) as untried,
               (array_agg(i.id order by i.id) filter (where i.attempts > 0))[1:3] as tried,
               (array_agg(i.id order by i.since desc) filter (where i.attempts > 1 or i.attempts = 1 and i.until is null))[1] as failed,
               v_percent < 100 as estimated
          from item i group by i.lane
        union all
        select w.lane, sum(w.weight), sum(w.weight) filter (where w.due <= v_now), sum(w.weight) filter (where w.due > v_now), 0, 0, 0, 0,
               min(w.due) filter (where w.due <= v_now), min(w.due) filter (where w.due <= v_now), null, null, bool_or(w.estimated)
          from @schema@.log_sample w group by w.lane
        union all
        select t.lane, 0, 0, 0, 0, count(*), count(*) filter (where t.until <= v_now), 0, null, null, (array_agg(t.id order by t.id))[1:3], null,
               false
          from @schema@.log_taken t group by t.lane
    ), figure as materialized (
        select p.lane, sum(p.pending) as pending, sum(p.due) as due, sum(p.delayed) as delayed, sum(p.retrying) as retrying,
               sum(p.processing) as processing, sum(p.stuck) as stuck, sum(p.parked) as parked, min(p.oldest_due) as oldest_due,
               least(min(p.untried), min(m.since)) as oldest, (array_agg(p.failed) filter (where p.failed is not null))[1] as failed,
               bool_or(p.estimated) as estimated
          from part p
          left join lateral (select min(coalesce(s.due, s.created_at)) as since
                               from unnest(p.tried) u(id), lateral (select s.due, s.created_at from @schema@.stored s where s.id = u.id) s) m on true
         group by p.lane
    ), dead as materialized ( -- once, not for each topic
        select d.namespace, d.topic, sum(100 / v_dead_percent::double precision) as dead
          from @schema@.dead d tablesample system (v_dead_percent)
         where v_tenant is null or d.tenant_id = v_tenant group by d.namespace, d.topic
    )
    select l.namespace, l.topic, coalesce(round(f.pending), 0)::bigint, coalesce(round(f.due), 0)::bigint, coalesce(round(f.delayed), 0)::bigint,
           coalesce(round(f.retrying), 0)::bigint, coalesce(round(f.processing), 0)::bigint, coalesce(round(f.stuck), 0)::bigint,
           coalesce(round(f.parked), 0)::bigint,
           case when n.few < v_few then n.few else greatest(n.few, round(d.dead))::bigint end,
           coalesce(extract(epoch from v_now - f.oldest_due), 0)::double precision,
           greatest(0, coalesce(extract(epoch from v_now - f.oldest), 0))::double precision,
           e.code, left(e.error, 500), e.at,
           coalesce(f.estimated, false) or v_dead_percent < 100 and n.few >= v_few,
           (select count(*) from (select from @schema@.dead x where n.few > 0 and x.namespace = l.namespace and x.topic = l.topic
                                     and x.died_at > v_now - interval '1 h' and (v_tenant is null or x.tenant_id = v_tenant) limit max_count) x)
      -- With the collation of the dead letters' index, which is not that of the lanes.
      from (select distinct x.id, x.namespace collate "default" as namespace, x.topic collate "default" as topic from @schema@.lane x) l
      left join figure f on f.lane = l.id
      left join dead d on d.namespace = l.namespace and d.topic = l.topic
     cross join lateral (select case when v_dead_percent = 100 then coalesce(round(d.dead), 0)::bigint
            else (select count(*) from (select from @schema@.dead x where x.namespace = l.namespace and x.topic = l.topic
                                          and (v_tenant is null or x.tenant_id = v_tenant) limit v_few) x) end as few offset 0) n -- once
      left join lateral (
            select * from (select a.code, a.error, a.completed_at as at from @schema@.attempt_single a where a.message_id = f.failed and a.outcome <> 1
                            order by a.attempt_no desc limit 1) a
            union all
            select * from (select x.code, x.error, x.died_at from @schema@.dead x where n.few > 0 and x.namespace = l.namespace and x.topic = l.topic
                              and (v_tenant is null or x.tenant_id = v_tenant)
                            order by x.namespace desc, x.topic desc, x.died_at desc limit 1) x
             order by at desc limit 1) e on true;
end
$$;

create view @schema@.status with (security_barrier) as
select t.namespace, t.topic, t.pending, t.due, t.delayed, t.processing, t.stuck, t.parked, t.dead, t.oldest_due_s,
       exists (select from @schema@.pause p where p.sink is null and (p.namespace is null
               or (p.namespace = t.namespace and (p.topic is null or p.topic = t.topic))
               or (t.namespace like p.like_namespace and t.topic like p.like_topic))) as paused,
       t.retrying, t.oldest_undelivered_s, t.last_code, t.last_error, t.last_error_at, t.estimated, t.dead_last_hour
  from @schema@.topics() t
 where (select @schema@.sees_all());

-- The words of a well-known shape of outbox table: pending, publishing, published, failed, dead_lettered.
create view @schema@.outbox as
select m.id, m.topic, m.key, m.payload as payload_json, m.dedupe_key as idempotency_key,
       case m.status when 'processing' then 'publishing' when 'delivered' then 'published' when 'dead' then 'dead_lettered'
                     when 'pending' then case when m.attempts > 0 then 'failed' else 'pending' end
                     else m.status end as status,
       greatest(m.attempts - 1, 0) + (m.status = 'pending' and m.attempts > 0)::int as retry_count,
       m.last_error, case when m.attempts > 0 then m.updated_at end as last_attempt_at, m.next_attempt_at,
       m.delivered_at as published_at, m.created_at
  from @schema@.messages m;

do $$
declare
    c record;
begin
    for c in select * from (values
        ('messages', null, 'Every message that is stored, and where it stands. A page of them costs what its rows cost: ORDER BY id DESC LIMIT 20, and for the next one WHERE id < the last id. The few that are pending or dead are found at once in queued and dead_letters; among all messages they are looked for one by one.'),
        ('messages', 'id', 'The message''s id, a uuid v7: it sorts by time. The same over all attempts.'),
        ('messages', 'namespace', 'Whose topic it is.'),
        ('messages', 'topic', 'What kind of message it is; routes go by it.'),
        ('messages', 'tenant_id', 'The tenant it belongs to; null for none.'),
        ('messages', 'key', 'Messages of one key are delivered in commit order; null for no order.'),
        ('messages', 'seq', 'The position within the key, gapless from 1.'),
        ('messages', 'dedupe_key', 'The producer''s key: the same one again is the same message.'),
        ('messages', 'subject', 'The id of the domain object it is about.'),
        ('messages', 'recipient', 'Whom it goes to.'),
        ('messages', 'correlation_id', 'An id that goes through rows, logs and deliveries.'),
        ('messages', 'status', 'pending, processing, delivered, dead; discarded after an operator let a dead one go.'),
        ('messages', 'attempts', 'The number of the last attempt begun; never falls.'),
        ('messages', 'spent', 'How much of max_attempts is spent; an operator''s retry resets it.'),
        ('messages', 'max_attempts', 'How many attempts it may spend.'),
        ('messages', 'max_attempts_from', 'Who said so: message, sink (or its route), namespace.'),
        ('messages', 'deferred', 'How many times in a row it was put off, nothing spent: limited, blocked, or unknown from a sink that answers nobody.'),
        ('messages', 'priority', '0 to 9, 9 first.'),
        ('messages', 'next_attempt_at', 'When it is due; null while it is processed, and at its end.'),
        ('messages', 'locked_by', 'The worker that has it now.'),
        ('messages', 'locked_until', 'When that worker''s lease ends.'),
        ('messages', 'parked', 'It waits for an earlier message of its key.'),
        ('messages', 'redriven', 'An operator sent it again after it was dead.'),
        ('messages', 'last_code', 'The code of the last failure.'),
        ('messages', 'last_error', 'The text of the last failure.'),
        ('messages', 'dead_reason', 'attempts (spent), terminal (rejected permanently), expired or skipped (an operator put it aside).'),
        ('messages', 'created_at', 'When it was enqueued.'),
        ('messages', 'updated_at', 'When its state changed last.'),
        ('messages', 'delivered_at', 'When it was accepted.'),
        ('messages', 'expires_at', 'After this it is not tried any more.'),
        ('messages', 'headers', 'The producer''s headers, a JSON object of strings.'),
        ('messages', 'content_type', 'The type of body; null for JSON.'),
        ('messages', 'payload', 'The content when it is JSON.'),
        ('messages', 'body', 'The content when it is bytes, or compressed.'),
        ('messages', 'encoding', 'zstd: its producer compressed body; without a content_type it is JSON. Null: as it is.'),
        ('queued', null, 'The messages that are pending or processing, with the columns of messages.'),
        ('queued', 'id', 'As in messages.'),
        ('queued', 'namespace', 'As in messages.'),
        ('queued', 'topic', 'As in messages.'),
        ('queued', 'tenant_id', 'As in messages.'),
        ('queued', 'key', 'As in messages.'),
        ('queued', 'seq', 'As in messages.'),
        ('queued', 'dedupe_key', 'As in messages.'),
        ('queued', 'subject', 'As in messages.'),
        ('queued', 'recipient', 'As in messages.'),
        ('queued', 'correlation_id', 'As in messages.'),
        ('queued', 'status', 'As in messages.'),
        ('queued', 'attempts', 'As in messages.'),
        ('queued', 'spent', 'As in messages.'),
        ('queued', 'max_attempts', 'As in messages.'),
        ('queued', 'max_attempts_from', 'As in messages.'),
        ('queued', 'deferred', 'As in messages.'),
        ('queued', 'priority', 'As in messages.'),
        ('queued', 'next_attempt_at', 'As in messages.'),
        ('queued', 'locked_by', 'As in messages.'),
        ('queued', 'locked_until', 'As in messages.'),
        ('queued', 'parked', 'As in messages.'),
        ('queued', 'redriven', 'As in messages.'),
        ('queued', 'last_code', 'As in messages.'),
        ('queued', 'last_error', 'As in messages.'),
        ('queued', 'dead_reason', 'As in messages.'),
        ('queued', 'created_at', 'As in messages.'),
        ('queued', 'updated_at', 'As in messages.'),
        ('queued', 'delivered_at', 'As in messages.'),
        ('queued', 'expires_at', 'As in messages.'),
        ('queued', 'headers', 'As in messages.'),
        ('queued', 'content_type', 'As in messages.'),
        ('queued', 'payload', 'As in messages.'),
        ('queued', 'body', 'As in messages.'),
        ('queued', 'encoding', 'As in messages.'),
        ('attempts', null, 'Every attempt, append-only; one in progress has the outcome processing. Limited or blocked again as before is counted in messages.deferred instead.'),
        ('attempts', 'attempt_id', 'message id, a slash, attempt number.'),
        ('attempts', 'message_id', 'The message it was an attempt of.'),
        ('attempts', 'attempt_no', 'From 1; never falls, never repeats.'),
        ('attempts', 'namespace', 'The message''s.'),
        ('attempts', 'topic', 'The message''s.'),
        ('attempts', 'tenant_id', 'The message''s.'),
        ('attempts', 'key', 'The message''s.'),
        ('attempts', 'seq', 'The message''s.'),
        ('attempts', 'subject', 'The message''s.'),
        ('attempts', 'dedupe_key', 'The message''s.'),
        ('attempts', 'correlation_id', 'The message''s.'),
        ('attempts', 'outcome', 'delivered, retry, failed, lost, limited, blocked, unknown, interrupted or processing.'),
        ('attempts', 'worker', 'Who claimed it.'),
        ('attempts', 'claimed_at', 'When the attempt began.'),
        ('attempts', 'completed_at', 'When its outcome was recorded; null while it is in progress.'),
        ('attempts', 'latency_ms', 'How long the delivery took, as the worker measured it.'),
        ('attempts', 'code', 'The sink''s explicit code.'),
        ('attempts', 'error', 'Its text.'),
        ('attempts', 'reference', 'The receiver''s own id for what it accepted.'),
        ('dead_letters', null, 'Messages that are not tried any more, until an operator retries or discards them.'),
        ('dead_letters', 'id', 'The message''s id.'),
        ('dead_letters', 'namespace', 'The message''s.'),
        ('dead_letters', 'topic', 'The message''s.'),
        ('dead_letters', 'tenant_id', 'The message''s.'),
        ('dead_letters', 'key', 'The message''s.'),
        ('dead_letters', 'seq', 'The message''s.'),
        ('dead_letters', 'dedupe_key', 'The message''s.'),
        ('dead_letters', 'subject', 'The message''s.'),
        ('dead_letters', 'recipient', 'The message''s.'),
        ('dead_letters', 'correlation_id', 'The message''s.'),
        ('dead_letters', 'reason', 'attempts (spent), terminal (rejected permanently), expired or skipped (an operator put it aside).'),
        ('dead_letters', 'code', 'The code of the last failure.'),
        ('dead_letters', 'error', 'The text of the last failure.'),
        ('dead_letters', 'attempts', 'The number of its last attempt.'),
        ('dead_letters', 'spent', 'How many attempts it spent in this life.'),
        ('dead_letters', 'max_attempts', 'How many it might spend.'),
        ('dead_letters', 'priority', 'The message''s.'),
        ('dead_letters', 'held', 'Its key waits for it (on_dead = hold).'),
        ('dead_letters', 'created_at', 'When it was enqueued.'),
        ('dead_letters', 'died_at', 'When it was given up.'),
        ('dead_letters', 'expires_at', 'When it expired or would have.'),
        ('dead_letters', 'headers', 'The message''s.'),
        ('dead_letters', 'content_type', 'The message''s.'),
        ('dead_letters', 'payload', 'The message''s.'),
        ('dead_letters', 'body', 'The message''s.'),
        ('dead_letters', 'encoding', 'The message''s.'),
        ('dead_letters', 'fingerprint', 'The group of its failure, as in error_groups: code and text without ids, numbers and quoted texts.'),
        ('status', null, 'One row per topic: pending, processing and dead messages, the oldest of them and the last error. Its cost does not grow with the queue: beyond tens of thousands of messages the counts are estimates.'),
        ('status', 'namespace', 'Whose topic it is.'),
        ('status', 'topic', 'The topic.'),
        ('status', 'pending', 'Messages that wait: due, delayed or parked.'),
        ('status', 'due', 'Of those: could go now.'),
        ('status', 'delayed', 'Of those: never tried, and due later.'),
        ('status', 'processing', 'Claimed and not settled.'),
        ('status', 'stuck', 'Of those: the lease has ended; the next claim takes them.'),
        ('status', 'parked', 'Messages behind an earlier one of their key.'),
        ('status', 'dead', 'Dead letters.'),
        ('status', 'oldest_due_s', 'Age in seconds of the longest due message; 0 for none.'),
        ('status', 'paused', 'An operator paused it.'),
        ('status', 'retrying', 'Of the pending ones: tried already.'),
        ('status', 'oldest_undelivered_s', 'Age in seconds, since it was enqueued or since the delay that its producer asked for, of the oldest message that is neither delivered nor dead; 0 for none. Retries do not restart it.'),
        ('status', 'last_code', 'The code of the last failure among the messages that are retried or dead.'),
        ('status', 'last_error', 'Its text.'),
        ('status', 'last_error_at', 'When that was.'),
        ('status', 'estimated', 'Some of the counts are estimates, from a sample.'),
        ('status', 'dead_last_hour', 'Of the dead letters: those that died within the last hour, counted up to 10,000.'),
        ('acts', null, 'What operators did, append-only.'),
        ('acts', 'id', 'A running number.'),
        ('acts', 'at', 'When.'),
        ('acts', 'actor', 'Who.'),
        ('acts', 'action', 'What: retry, discard, skip, redeliver, expire, move, pause, resume, configure, erase_tenant ...'),
        ('acts', 'reason', 'Why, in the actor''s words.'),
        ('acts', 'message_id', 'To which message; null when to none.'),
        ('acts', 'tenant_id', 'The message''s tenant.'),
        ('acts', 'detail', 'The rest, as JSON.'),
        ('outbox', null, 'The messages in the words pending, publishing, published, failed, dead_lettered.'),
        ('outbox', 'id', 'The message''s id.'),
        ('outbox', 'topic', 'The message''s topic.'),
        ('outbox', 'key', 'The message''s key.'),
        ('outbox', 'payload_json', 'The message''s payload.'),
        ('outbox', 'idempotency_key', 'The dedupe key.'),
        ('outbox', 'status', 'failed is pending after a failed attempt.'),
        ('outbox', 'retry_count', 'Failed attempts so far.'),
        ('outbox', 'last_error', 'The text of the last failure.'),
        ('outbox', 'last_attempt_at', 'When it was tried last.'),
        ('outbox', 'next_attempt_at', 'When it is due.'),
        ('outbox', 'published_at', 'When it was accepted.'),
        ('outbox', 'created_at', 'When it was enqueued.')) c(view, col, text) loop
        if c.col is null then
            execute format('comment on view %I.%I is %L', @schema_text@, c.view, c.text);
        else
            execute format('comment on column %I.%I.%I is %L', @schema_text@, c.view, c.col, c.text);
        end if;
    end loop;
end
$$;
