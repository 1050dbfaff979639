-- Levers: what an operator does with messages by their ids, in whatever state they are. Each act is on record.
--
--   retry      a dead letter lives again; a message that waits for its next attempt is due now
--   discard    it ends without another attempt
--   skip       it steps aside: it becomes a dead letter that does not hold its key (reason skipped), or, if it is dead already,
--              no longer holds it. Its key goes on. It can be retried or discarded later, like any dead letter
--   expire     it becomes a dead letter, as if its time were over
--   move       it ends (as if discarded), and a new message with its content begins in another topic
--   redeliver  a message that was delivered or discarded begins again, as a new one
--
-- A new message names the old one in the header x-outbox-origin. It is the last of its key, has a budget of its own and no dedupe
-- key: that stays with the old one, so a producer's repetition is still recognised.
--
-- Never touched is what a worker has: it is refused, with who has it and until when. And the rows of a key leave the queue
-- from the front only (002_tables.sql): a message behind another of its key is refused with that one's id, unless all that are
-- before it leave in the same call.
--
-- Locks: rows of the queue and of dead, without waiting: what somebody else has locked is "busy".

-- What waits in the log goes to the queue, with what is before it in its shard. Not more than 100,000 messages, and not
-- those behind an open window of their key's shard.
create function @schema@.admit_these(ids uuid[]) returns void
    language plpgsql
    set plan_cache_mode = force_custom_plan -- see spans_of
as $$
declare
    v_spans constant record := @schema@.spans_of(array(select i from unnest(ids) i order by i));
    v_shard int;
    v_shards int[];
    v_step record;
    v_count bigint;
    v_first boolean := true;
begin
    for v_round in 1..20 loop
        v_shards := array(
            select distinct m.shard
              from (select * from @schema@.message x where x.id = any (ids) and @schema@.within(x.id, v_spans.low, v_spans.high)
                       and x.shard is not null offset 0) m
             cross join lateral (
                select m.pos > k.base and not (m.pos <= k.high and (pg_visible_in_snapshot(coalesce(m.xid, m.ord), k.before)
                           or pg_visible_in_snapshot(coalesce(m.xid, m.ord), k.upto) and (m.ord, m.pos) <= (k.to_ord, k.to_pos))) as waits
                  from @schema@.log_window k where k.shard = m.shard order by k.shard desc, k.id desc limit 1) k
             where k.waits order by m.shard);
        v_count := 0;
        foreach v_shard in array v_shards loop
            v_step := @schema@.take_from(v_shard, null, 5000, null, null, null, null, null, false, true, null, v_first);
            v_first := false;
            v_count := v_count + v_step.admitted;
        end loop;
        exit when v_count = 0;
    end loop;
end
$$;

-- Dead letters that hold their keys let go of them.
create function @schema@.let_go(ids uuid[]) returns void
    language plpgsql
as $$
#variable_conflict use_column
declare
    v_sids bigint[];
    v_seqs bigint[];
begin
    update @schema@.dead d set held = false where d.id = any (ids) and d.held;
    with gone as (
        delete from @schema@.queue q where q.id = any (ids) and q.held returning q.sid, q.seq
    )
    select array_agg(sid), array_agg(seq) into v_sids, v_seqs from gone;
    if v_sids is not null then
        perform @schema@.wake_successors(v_sids, v_seqs);
    end if;
end
$$;

-- A message like this one, in the same topic or another.
create function @schema@.put_again(m @schema@.message, topic text, namespace text, v_now timestamptz, due timestamptz) returns uuid
    language plpgsql
as $$
begin
    return (@schema@.put(topic, m.payload, m.body, m.content_type, m.key, null, m.tenant_id, namespace, m.subject, m.recipient,
        coalesce(m.headers, '{}') || jsonb_build_object('x-outbox-origin', m.id), m.priority, case when due > v_now then due end,
        case when m.expires_at > v_now then m.expires_at end, m.max_attempts, m.correlation_id, m.encoding)).id;
end
$$;

-- A message as an operator's act meets it.
create type @schema@.met as (m @schema@.message, tenant uuid, status text, attempts int, code text, error text, sid bigint, seq bigint,
    due timestamptz, until timestamptz, holder text, held boolean, holds boolean, locked boolean);

-- Those of these messages that exist and that the session may touch, in the order of their keys. locked: by us.
create function @schema@.meet(ids uuid[]) returns setof @schema@.met
    language plpgsql
    set plan_cache_mode = force_custom_plan -- see spans_of
as $$
declare
    v_spans constant record := @schema@.spans_of(array(select i from unnest(ids) i order by i));
    v_tenant constant uuid := @schema@.current_tenant();
    v_queue uuid[];
    v_dead uuid[];
begin
    v_queue := array(select q.id from @schema@.queue q where q.id = any (ids) order by q.ctid for update skip locked);
    v_dead := array(select d.id from @schema@.dead d where d.id = any (ids) order by d.id for update skip locked);
    return query
        select m.m, (m.m).tenant_id,
               case when d.id is not null then 'dead' when q.until is not null then 'processing' when q.id is not null then 'pending'
                    else s.status end,
               coalesce(q.attempts, d.attempts, s.attempts), coalesce(d.code, s.last_code), coalesce(d.error, s.last_error), q.sid, q.seq, q.due,
               coalesce(q.until, s.locked_until), coalesce(q.holder, s.locked_by), coalesce(q.held, false),
               coalesce(n.on_dead, g.on_dead) = 'hold', (q.id is null or q.id = any (v_queue)) and (d.id is null or d.id = any (v_dead))
                   -- What a worker gave back without an attempt: its window still counts it.
                   and not (q.attempts > 0 and d.id is null and s.last_code is null
                            and exists (select from @schema@.log_window k where k.shard = (m.m).shard and k.open)
                            and not exists (select from @schema@.attempt_single a where a.message_id = q.id
                                               and @schema@.within(a.message_id, v_spans.low, v_spans.high)))
          from (select distinct i from unnest(ids) i) t(id)
         cross join lateral (select row (x.*)::@schema@.message as m from @schema@.stored x
                              where x.id = t.id and @schema@.within(x.id, v_spans.low, v_spans.high) offset 0) m
          join @schema@.namespace g on g.name = '*'
          left join @schema@.namespace n on n.name = (m.m).namespace
          left join @schema@.queue q on q.id = t.id
          left join @schema@.dead d on d.id = t.id
          left join lateral (select x.status, x.attempts, x.last_code, x.last_error, x.locked_until, x.locked_by
                               from @schema@.messages x where x.id = t.id and d.id is null offset 0) s on true
         where v_tenant is null or (m.m).tenant_id = v_tenant
         order by q.sid nulls first, q.seq, t.id;
end
$$;

-- Why an act does nothing to a message; null: it may go on. ahead: the message of its key that goes before it.
create function @schema@.refusal(action text, x @schema@.met, ahead uuid, v_now timestamptz, out result text, out detail text)
    language plpgsql
as $$
begin
    if x.status = 'processing' and x.until <= v_now and action <> 'redeliver' then
        result := 'leased';
        detail := format('%s had it, its lease ended at %s: the next claim takes it', x.holder, x.until);
    elsif x.status = 'processing' then
        result := 'leased';
        detail := format('%s has it until %s', coalesce(x.holder, 'a worker'), x.until);
    elsif action = 'redeliver' then
        if x.status not in ('delivered', 'discarded') then
            result := x.status;
            detail := case x.status when 'dead' then 'it is a dead letter: retry it' else 'it is not delivered yet' end;
        end if;
    elsif x.status in ('delivered', 'discarded') then
        result := x.status;
        detail := format('it is %s: only redeliver begins it again', x.status);
    elsif not x.locked or x.due is null and x.status = 'pending' then
        result := 'busy';
        detail := case when x.due is null then 'it is in the log behind what is delivered just now: try again'
                       else 'somebody changes it just now: try again' end;
    elsif ahead is not null and not (action = 'retry' and (x.status = 'dead' or x.due > v_now)) then
        result := 'behind';
        detail := format('%s of its key goes first', ahead);
    elsif action = 'retry' and x.status = 'pending' and x.due <= v_now then
        result := 'due';
        detail := format('it is due since %s', x.due);
    elsif x.status = 'dead' and action in ('skip', 'expire') and (action = 'expire' or not x.held) then
        result := 'dead';
        detail := case action when 'skip' then 'it is a dead letter that holds no key' else 'it is a dead letter already' end;
    end if;
end
$$;

create function @schema@.check_operate(action text, ids uuid[], topic text, namespace text) returns void
    language plpgsql
as $$
begin
    perform @schema@.check_isolation();
    if action is null or action not in ('retry', 'discard', 'skip', 'redeliver', 'expire', 'move') then
        raise exception 'unknown act "%"', coalesce(left(action, 64), '') using errcode = 'OB001',
            hint = 'Acts: retry, discard, skip, redeliver, expire, move.';
    elsif ids is null then
        raise exception 'no messages selected' using errcode = 'OB001', hint = 'Give their ids.';
    elsif cardinality(ids) > 10000 then
        raise exception 'there are % ids', cardinality(ids) using errcode = 'OB001', hint = 'Give at most 10000 in one call.';
    elsif action = 'move' then
        perform @schema@.complain(null, topic, coalesce(namespace, 'default'), null, null, null, null, null, null, null, 4, null, true);
    elsif topic is not null or namespace is not null then
        raise exception 'only a move takes a topic' using errcode = 'OB001', hint = 'Leave topic and namespace out.';
    end if;
end
$$;

-- Whether a run has redelivered a message, or made it.
create function @schema@.redelivered(m @schema@.message, run text) returns boolean
    language plpgsql
as $$
declare
    v_origin constant text := m.headers->>'x-outbox-origin';
begin
    return exists (select from @schema@.act t where t.message_id = m.id and t.action = 'redeliver' and t.detail->>'run' = run)
        or v_origin ~ '^[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}$'
           and exists (select from @schema@.act t where t.message_id = v_origin::uuid and t.action = 'redeliver' and t.detail->>'run' = run
                          and t.detail->>'as' = m.id::text);
end
$$;

-- Does the act to each of the messages that it applies to, in the order of their keys. result: ok; or why nothing was done, and detail
-- says more. made: the new message of a move or redeliver. run: a name for this redelivery; the same run redelivers a
-- message only once, and none that it made, so one that was interrupted can be begun again. status: only what is in this state.
create function @schema@.operate(action text, ids uuid[], topic text default null, namespace text default null, run text default null,
    actor text default null, reason text default null, status text default null)
    returns table (id uuid, result text, detail text, made uuid)
    language plpgsql security definer
    set search_path = pg_catalog, pg_temp
as $$
#variable_conflict use_column
declare
    v_now constant timestamptz := clock_timestamp();
    x @schema@.met;
    r record;
    v_sid bigint;     -- the key that the loop is at,
    v_next bigint;    -- and the first of its messages that stays
    v_ahead uuid;
    v_new uuid;
    v_detail jsonb;
    v_seen uuid[] := '{}';
    v_retry uuid[] := '{}';
    v_hurry uuid[] := '{}';
    v_bury uuid[] := '{}';
    v_codes text[] := '{}';
    v_errors text[] := '{}';
    v_end uuid[] := '{}';
begin
    perform @schema@.check_operate(operate.action, operate.ids, operate.topic, operate.namespace);
    if operate.action <> 'redeliver' then
        perform @schema@.admit_these(operate.ids);
    end if;
    for x in select * from @schema@.meet(operate.ids) loop
        id := (x.m).id;
        result := 'ok';
        detail := null;
        made := null;
        v_ahead := null;
        v_seen := v_seen || id;
        if x.sid is not null then
            if x.sid is distinct from v_sid then
                v_sid := x.sid;
                select min(q.seq) into v_next from @schema@.queue q where q.sid = x.sid;
            end if;
            if x.seq > v_next then
                select q.id into v_ahead from @schema@.queue q where q.sid = v_sid and q.seq = v_next;
            end if;
        end if;
        r := @schema@.refusal(operate.action, x, v_ahead, v_now);
        if r.result is null and operate.action = 'move' and operate.topic = (x.m).topic and coalesce(operate.namespace, (x.m).namespace) = (x.m).namespace then
            select 'same' as result, 'it is in this topic already' as detail into r;
        elsif r.result is null and x.status <> operate.status then
            select 'changed' as result, format('it is %s now', x.status) as detail into r;
        elsif r.result is null and operate.action = 'redeliver' and @schema@.redelivered(x.m, operate.run) then
            select 'done' as result, 'this run has redelivered it' as detail into r;
        end if;
        v_new := null;
        if r.result is null and operate.action in ('move', 'redeliver') then
            begin
                v_new := @schema@.put_again(x.m, coalesce(operate.topic, (x.m).topic), coalesce(operate.namespace, (x.m).namespace), v_now,
                    case when x.status = 'pending' and x.attempts = 0 then x.due end);
            exception when sqlstate 'OB001' or sqlstate 'OB006' then
                select 'invalid' as result, sqlerrm as detail into r;
            end;
        end if;
        if r.result is not null then
            result := r.result;
            detail := r.detail;
            return next;
            continue;
        end if;
        made := v_new;
        return next;

        v_detail := jsonb_strip_nulls(jsonb_build_object('was', x.status, 'code', x.code, 'attempts', x.attempts, 'as', v_new, 'topic',
            operate.topic, 'namespace', operate.namespace, 'run', operate.run));
        if operate.action = 'retry' and x.status = 'dead' then
            v_retry := v_retry || id; -- retry_some records it
            continue;
        end if;
        perform @schema@.record(operate.actor, operate.action, operate.reason, (x.m).id, (x.m).tenant_id, v_detail);
        continue when operate.action = 'redeliver';
        if operate.action = 'retry' then
            v_hurry := v_hurry || id;
            continue;
        end if;
        if x.status = 'pending' then
            v_bury := v_bury || id;
            v_codes := v_codes || case operate.action when 'expire' then 'expired' else x.code end;
            v_errors := v_errors || case operate.action when 'expire' then format('expired by %s', coalesce(operate.actor, session_user)) else x.error end;
        end if;
        v_end := v_end || id;
        if x.sid is not null and not (operate.action = 'expire' and x.holds) then
            v_next := x.seq + 1;
        end if;
    end loop;

    if cardinality(v_retry) > 0 then
        perform @schema@.retry_some(v_retry, operate.actor, operate.reason);
    end if;
    update @schema@.queue q set due = v_now where q.id = any (v_hurry);
    if cardinality(v_bury) > 0 then
        perform @schema@.bury(v_bury, array_fill(case operate.action when 'expire' then 'expired' else 'skipped' end, array[cardinality(v_bury)]),
            v_codes, v_errors, v_now);
        if operate.action in ('skip', 'expire') then
            perform @schema@.fire('dead', v_bury, null);
        end if;
    end if;
    if operate.action in ('discard', 'move') then
        perform @schema@.fire('discarded', v_end, null);
    end if;
    if operate.action <> 'expire' and cardinality(v_end) > 0 then
        perform @schema@.let_go(v_end);
    end if;
    if operate.action in ('discard', 'move') then
        delete from @schema@.dead d where d.id = any (v_end);
    end if;
    if cardinality(v_retry || v_hurry || v_end) > 0 then
        perform @schema@.ring_if_calm();
    end if;
    return query
        select t.id, 'unknown', 'there is no such message', null::uuid
          from (select distinct i from unnest(operate.ids) i where i is not null) t(id) where t.id <> all (v_seen);
end
$$;
