-- What operators do: retry and discard dead letters, pause and resume, configure. Every act is recorded.

-- The actor is what the caller gives. If that is not the login role, the role is recorded too.
create function @schema@.record(actor text, action text, reason text, message_id uuid, tenant_id uuid, detail jsonb)
    returns void
    language sql security definer
    set search_path = pg_catalog, pg_temp
as $$
    insert into @schema@.act (actor, action, reason, message_id, tenant_id, detail)
    values (coalesce(actor, session_user), action, reason, message_id, tenant_id, case when actor <> session_user
        then coalesce(detail, '{}') || jsonb_build_object('login', session_user) else detail end)
$$;

-- Rings for work that did not come through enqueue.
create function @schema@.ring_if_calm() returns void
    language plpgsql
as $$
begin
    if @schema@.should_ring(0) then
        perform @schema@.ring(0);
    end if;
end
$$;

-- The next dead letters that ids or a filter name, locked, from an id on. A session with a tenant reaches its own only.
create function @schema@.pick_dead(ids uuid[], namespace text, topic text, tenant uuid, code text, before timestamptz,
    after uuid, max_count bigint) returns uuid[]
    language plpgsql
as $$
#variable_conflict use_column
declare
    v_namespace constant text := @schema@.like_of(pick_dead.namespace);
    v_topic constant text := @schema@.like_of(pick_dead.topic);
begin
    return array(select d.id from @schema@.dead d
         where (pick_dead.ids is null or d.id = any (pick_dead.ids))
           and (v_namespace is null or d.namespace like v_namespace)
           and (v_topic is null or d.topic like v_topic)
           and (pick_dead.tenant is null or d.tenant_id = pick_dead.tenant)
           and (pick_dead.code is null or d.code = pick_dead.code)
           and (pick_dead.before is null or d.created_at < pick_dead.before)
           and (pick_dead.after is null or d.id > pick_dead.after)
           and (@schema@.current_tenant() is null or d.tenant_id = @schema@.current_tenant())
         order by d.id limit max_count
           for update skip locked);
end
$$;

create function @schema@.check_picking(ids uuid[], namespace text, topic text, tenant uuid, code text, before timestamptz,
    max_count int) returns void
    language plpgsql
as $$
begin
    perform @schema@.check_isolation();
    if ids is null and namespace is null and topic is null and tenant is null and code is null and before is null then
        raise exception 'no dead letters selected' using errcode = 'OB001',
            hint = 'Give ids, namespace, topic, tenant, code or before (created before); before => now() means all.';
    end if;
    perform @schema@.check_names(namespace, topic, null);
    perform @schema@.check_range('max_count', max_count, @operate_min@, @operate_max@, '', '@operate_range@');
end
$$;

-- Retries some dead letters; see retry. Each still has its message: retention keeps it as long as the dead letter.
create function @schema@.retry_some(ids uuid[], actor text, reason text) returns void
    language plpgsql
as $$
#variable_conflict use_column
declare
    v_now constant timestamptz := clock_timestamp();
begin
    update @schema@.queue q
       set held = false, parked = false, due = v_now, since = v_now, spent = 0, lost = 0, deferred = 0,
           redriven = true, expires_at = null
     where q.id = any (ids) and q.held;
    insert into @schema@.queue (id, lane, due, since, tenant_id, attempts, bytes, max_attempts, prio, shard, redriven)
    select d.id, l.id, v_now, v_now, d.tenant_id, d.attempts,
           case when d.encoding is null then coalesce(octet_length(d.body), octet_length(d.payload::text))
                else @schema@.content_size(null, d.body, d.encoding) end, coalesce(d.max_attempts, n.max_attempts, s.max_attempts),
           d.priority, -1, true
      from @schema@.dead d
      join @schema@.namespace s on s.name = '*'
      left join @schema@.namespace n on n.name = d.namespace,
           lateral (select x.id from @schema@.lane x where x.namespace = d.namespace and x.topic = d.topic limit 1) l
     where d.id = any (ids) and not d.held;
    perform @schema@.record(retry_some.actor, 'retry', retry_some.reason, d.id, d.tenant_id,
        jsonb_build_object('code', d.code, 'attempts', d.attempts)) from @schema@.dead d where d.id = any (ids);
    delete from @schema@.dead d where d.id = any (ids);
    perform @schema@.fire('redriven', ids, null);
end
$$;

create function @schema@.discard_some(ids uuid[], actor text, reason text) returns void
    language plpgsql
as $$
#variable_conflict use_column
declare
    v_sids bigint[];
    v_seqs bigint[];
begin
    perform @schema@.fire('discarded', ids, null);
    with gone as (
        delete from @schema@.queue q where q.id = any (ids) and q.held returning q.sid, q.seq
    )
    select array_agg(sid), array_agg(seq) into v_sids, v_seqs from gone;
    if v_sids is not null then
        perform @schema@.wake_successors(v_sids, v_seqs);
        perform @schema@.ring_if_calm();
    end if;
    perform @schema@.record(discard_some.actor, 'discard', discard_some.reason, d.id, d.tenant_id,
        jsonb_build_object('namespace', d.namespace, 'topic', d.topic, 'code', d.code, 'attempts', d.attempts))
       from @schema@.dead d where d.id = any (ids);
    delete from @schema@.dead d where d.id = any (ids);
end
$$;

-- Retries dead letters: each gets a fresh budget, and attempt numbers continue. If its key continued without it, it no
-- longer has a place in the order, and the receiver is told (redriven). If it held its key, it is delivered first. In
-- steps, so that the memory needed does not grow with the number of messages.
create function @schema@.retry(ids uuid[] default null, namespace text default null, topic text default null,
    tenant uuid default null, code text default null, before timestamptz default null, max_count int default 10000,
    actor text default null, reason text default null) returns bigint
    language plpgsql security definer
    set search_path = pg_catalog, pg_temp
as $$
#variable_conflict use_column
declare
    v_some uuid[];
    v_count bigint := 0;
begin
    perform @schema@.check_picking(retry.ids, retry.namespace, retry.topic, retry.tenant, retry.code, retry.before, max_count);
    loop
        v_some := @schema@.pick_dead(retry.ids, retry.namespace, retry.topic, retry.tenant, retry.code, retry.before,
            v_some[cardinality(v_some)], least(max_count - v_count, 500));
        exit when cardinality(v_some) = 0;
        perform @schema@.retry_some(v_some, retry.actor, retry.reason);
        v_count := v_count + cardinality(v_some);
    end loop;
    if v_count > 0 then
        perform @schema@.ring_if_calm();
    end if;
    return v_count;
end
$$;

-- Ends dead letters without another attempt. Their attempts are kept, and the act records who discarded them.
create function @schema@.discard(ids uuid[] default null, namespace text default null, topic text default null,
    tenant uuid default null, code text default null, before timestamptz default null, max_count int default 10000,
    actor text default null, reason text default null) returns bigint
    language plpgsql security definer
    set search_path = pg_catalog, pg_temp
as $$
#variable_conflict use_column
declare
    v_some uuid[];
    v_count bigint := 0;
begin
    perform @schema@.check_picking(discard.ids, discard.namespace, discard.topic, discard.tenant, discard.code, discard.before,
        max_count);
    loop
        v_some := @schema@.pick_dead(discard.ids, discard.namespace, discard.topic, discard.tenant, discard.code,
            discard.before, v_some[cardinality(v_some)], least(max_count - v_count, 500));
        exit when cardinality(v_some) = 0;
        perform @schema@.discard_some(v_some, discard.actor, discard.reason);
        v_count := v_count + cardinality(v_some);
    end loop;
    return v_count;
end
$$;

-- A pause applies to everything, to namespaces and topics, or to a sink.
create function @schema@.check_pause(namespace text, topic text, sink text) returns void
    language plpgsql
as $$
begin
    perform @schema@.check_no_tenant();
    perform @schema@.check_names(namespace, topic, sink);
    if topic is not null and namespace is null then
        raise exception 'pausing a topic requires its namespace' using errcode = 'OB001',
            hint = 'Give the namespace too; ''*'' stands for all namespaces.';
    elsif sink is not null and namespace is not null then
        raise exception 'a pause takes either a sink, or a namespace and topic' using errcode = 'OB001', hint = 'Give one of the two.';
    end if;
end
$$;

-- Pauses everything (no argument), a namespace, a topic, or a sink (a sink's name; relays obey it). Namespace
-- and topic may be patterns with * and ?, which also apply to topics that come later.
-- Producers continue, and messages accumulate. Messages that are already claimed are finished.
create function @schema@.pause(namespace text default null, topic text default null, sink text default null,
    actor text default null, reason text default null) returns boolean
    language plpgsql security definer
    set search_path = pg_catalog, pg_temp
as $$
#variable_conflict use_column
declare
    v_pattern constant boolean := concat(namespace, topic) ~ '[*?]';
begin
    perform @schema@.check_pause(namespace, topic, sink);
    if exists (select from @schema@.pause p where p.namespace is not distinct from pause.namespace
            and p.topic is not distinct from pause.topic and p.sink is not distinct from pause.sink) then
        return false;
    end if;
    insert into @schema@.pause (namespace, topic, sink, lane, like_namespace, like_topic, actor, reason)
    values (pause.namespace, pause.topic, pause.sink,
            case when pause.topic is not null and not v_pattern then @schema@.lane_id(pause.namespace, pause.topic) end,
            case when v_pattern then @schema@.like_of(pause.namespace) end,
            case when v_pattern then @schema@.like_of(coalesce(pause.topic, '*')) end,
            coalesce(pause.actor, session_user), pause.reason);
    perform @schema@.record(actor, 'pause', reason, null, null,
        jsonb_build_object('namespace', namespace, 'topic', topic, 'sink', sink));
    return true;
end
$$;

-- Undoes the pause of the same name or pattern, and the pauses of single topics or namespaces that a pattern matches.
create function @schema@.resume(namespace text default null, topic text default null, sink text default null,
    actor text default null, reason text default null) returns boolean
    language plpgsql security definer
    set search_path = pg_catalog, pg_temp
as $$
#variable_conflict use_column
begin
    perform @schema@.check_pause(namespace, topic, sink);
    delete from @schema@.pause p where p.sink is not distinct from resume.sink
       and (p.namespace is not distinct from resume.namespace and p.topic is not distinct from resume.topic
            or p.like_namespace is null and p.namespace like @schema@.like_of(resume.namespace)
               and (p.topic is null and resume.topic is null or p.topic like @schema@.like_of(resume.topic)));
    if not found then
        return false;
    end if;
    perform @schema@.record(actor, 'resume', reason, null, null,
        jsonb_build_object('namespace', namespace, 'topic', topic, 'sink', sink));
    perform @schema@.ring_if_calm();
    return true;
end
$$;

-- Changes a setting of a namespace; value null goes back to the default. Namespace '*' is the default itself.
create function @schema@.configure(namespace text, name text, value text, actor text default null,
    reason text default null) returns void
    language plpgsql security definer
    set search_path = pg_catalog, pg_temp
as $$
#variable_conflict use_column
declare
    known constant text[] := '{dedupe_scope,order_scope,tenant_prefix,on_dead,max_payload,max_attempts,retry_base,retry_cap,lane,doorbell}';
    global constant text[] := '{retention,attempt_retention,partition_width}';
    r @schema@.namespace;
begin
    perform @schema@.check_isolation(); -- all lanes must be seen
    perform @schema@.check_no_tenant();
    if configure.namespace is null then
        raise exception '"namespace" is missing' using errcode = 'OB001',
            hint = 'Give a namespace, or ''*'' for the default of all.';
    elsif coalesce(configure.name, '') <> all (known || global) then
        raise exception 'unknown setting "%"', coalesce(configure.name, '') using errcode = 'OB001',
            hint = 'Settings: ' || array_to_string(known || global, ', ') || '.';
    elsif configure.name = any (global) and configure.namespace <> '*' then
        raise exception 'the setting "%" applies to all namespaces', configure.name using errcode = 'OB001',
            hint = 'Use the namespace ''*''.';
    elsif octet_length(configure.namespace) not between @namespace_min@ and @namespace_max@ then
        raise exception 'the namespace has % bytes', octet_length(configure.namespace) using errcode = 'OB001',
            hint = 'It takes @namespace_range@.';
    elsif configure.namespace <> '*' and configure.namespace ~ '[\u0001-\u0020\u007f-\u00a0\u1680\u2000-\u200a\u2028\u2029\u202f\u205f\u3000*?]' then
        raise exception 'the namespace is "%"', configure.namespace using errcode = 'OB001',
            hint = 'Namespaces have no spaces and no "*" or "?".';
    elsif configure.namespace = '*' and configure.value is null and configure.name <> 'attempt_retention' then
        raise exception 'the default of "%" cannot be removed', configure.name using errcode = 'OB001',
            hint = 'Give a value.';
    end if;
    perform from @schema@.namespace n where n.name = '*' for update; -- see lane_for
    insert into @schema@.namespace (name) values (configure.namespace) on conflict do nothing;
    select * into strict r from @schema@.namespace n where n.name = configure.namespace for update;
    begin
        case configure.name
            when 'dedupe_scope' then r.dedupe_scope := configure.value;
            when 'order_scope' then r.order_scope := configure.value;
            when 'tenant_prefix' then r.tenant_prefix := configure.value;
            when 'on_dead' then r.on_dead := configure.value;
            when 'max_payload' then r.max_payload := configure.value;
            when 'max_attempts' then r.max_attempts := configure.value;
            when 'retry_base' then r.retry_base := configure.value;
            when 'retry_cap' then r.retry_cap := configure.value;
            when 'lane' then r.lane := configure.value;
            when 'doorbell' then r.doorbell := configure.value;
            when 'retention' then r.retention := replace(configure.value, 'forever', '4000 years');
            when 'attempt_retention' then r.attempt_retention := replace(configure.value, 'forever', '4000 years');
            when 'partition_width' then r.partition_width := configure.value;
        end case;
        if least(r.retention, r.attempt_retention) < '0' then
            raise check_violation;
        end if;
        r.retention := case when r.retention > '4000 years' then '4000 years' else r.retention end;
        r.attempt_retention := case when r.attempt_retention > '4000 years' then '4000 years' else r.attempt_retention end;
        update @schema@.namespace n
           set (dedupe_scope, order_scope, tenant_prefix, on_dead, max_payload, max_attempts, retry_base, retry_cap,
                lane, doorbell, retention, attempt_retention, partition_width)
             = (r.dedupe_scope, r.order_scope, r.tenant_prefix, r.on_dead, r.max_payload, r.max_attempts, r.retry_base,
                r.retry_cap, r.lane, r.doorbell, r.retention, r.attempt_retention, r.partition_width)
         where n.name = configure.namespace;
    exception when check_violation or data_exception then
        raise exception 'the setting "%" does not take "%"', configure.name, configure.value using errcode = 'OB001',
            hint = 'It takes ' || case configure.name
                when 'dedupe_scope' then 'topic or namespace' when 'order_scope' then 'topic or namespace'
                when 'on_dead' then 'continue or hold' when 'lane' then 'log or queue'
                when 'tenant_prefix' then 'on or off' when 'doorbell' then 'on or off'
                when 'max_payload' then '@max_payload_range@' when 'max_attempts' then '@max_attempts_range@'
                when 'retry_base' then 'an interval of @retry_base_range@, e.g. 1 s'
                when 'retry_cap' then 'an interval of @retry_cap_range@, e.g. 30 min'
                when 'partition_width' then 'an interval of 1 hour to 10 years, e.g. 1 day'
                else 'an interval, e.g. 7 days, or forever' end || '.';
    end;
    if configure.name in ('dedupe_scope', 'order_scope', 'tenant_prefix', 'max_payload', 'max_attempts', 'lane', 'doorbell') then
        update @schema@.lane l
           set (max_payload, max_attempts, log, rings, tenant_prefix, dedupe_by_topic, order_by_topic)
             = (select s.* from @schema@.settings_of(l.namespace) s)
         where configure.namespace in (l.namespace, '*');
    end if;
    perform @schema@.record(actor, 'configure', reason, null, null,
        jsonb_build_object('namespace', configure.namespace, 'name', configure.name, 'value', configure.value));
end
$$;

-- Gives a topic a doorbell of its own, for relays that serve only some topics. See docs/doorbell.md.
create function @schema@.assign_doorbell(namespace text, topic text, doorbell int) returns void
    language plpgsql security definer
    set search_path = pg_catalog, pg_temp
as $$
#variable_conflict use_column
begin
    perform @schema@.check_no_tenant();
    perform @schema@.complain(null, assign_doorbell.topic, assign_doorbell.namespace, null, null, null, null, null, null, null, 4,
        null, true);
    perform @schema@.lane_for(assign_doorbell.namespace, assign_doorbell.topic);
    update @schema@.lane l set doorbell = assign_doorbell.doorbell
     where l.namespace = assign_doorbell.namespace and l.topic = assign_doorbell.topic;
    perform @schema@.record(null, 'assign_doorbell', null, null, null,
        jsonb_build_object('namespace', namespace, 'topic', topic, 'doorbell', doorbell));
end
$$;
