-- Outcome hooks: an application's own function, called in the transaction that records an outcome.
--
--   create function app.on_outcome(events jsonb) returns void language plpgsql security definer
--       set search_path = app, pg_temp as $f$ begin update app.node ... ; end $f$;
--   select outbox.hook('app.on_outcome(jsonb)', namespace => 'workflow');
--
-- events is a JSON array, one object per message: event (delivered, retry, dead, redriven, discarded), id, namespace,
-- topic, tenant_id, key, seq, subject, recipient, correlation_id, dedupe_key, attempt, outcome, reason (of a dead one), code,
-- error, reference, output, at.
--
-- Rights. A hook is SECURITY DEFINER, so it has the rights of its owner. Whatever it is changed into later, it is called
-- by a role that has no rights at all, never by ours.
-- Failure. Each call is a subtransaction with a lock_timeout of 200 ms. Deferred constraints are checked at its end, and
-- are immediate for the rest of the transaction. When it fails, what it did is undone, the outcome stands, and the events
-- go to hook_failure, from which run_failed_hooks gives them again, one by one.

create function @schema@.outputs_of(done uuid[], ids uuid[], outputs jsonb[]) returns jsonb
    language sql immutable
as $$
    select case when outputs is not null then
        (select jsonb_object_agg(t.id, t.output) from unnest(ids, outputs) t(id, output)
          where t.output is not null and t.id = any (done)) end
$$;

-- The only function that calls foreign code. It belongs to the role without rights, and does nothing else.
create function @schema@.call_hook(function_schema text, function_name text, events jsonb) returns void
    language plpgsql security definer
    set search_path = pg_catalog, pg_temp
    set enable_seqscan = on
    set enable_hashjoin = on
    set enable_mergejoin = on
    set plan_cache_mode = auto
as $$
begin
    execute format('select %I.%I($1)', function_schema, function_name) using events;
end
$$;

create function @schema@.fire(event text, ids uuid[], outputs jsonb) returns void
    language plpgsql
as $$
#variable_conflict use_column
declare
    v_events jsonb;
    v_hook @schema@.hook;
    v_old_timeout constant text := current_setting('lock_timeout');
    v_old_tenant constant text := coalesce(current_setting('app.current_tenant_id', true), '');
begin
    if coalesce(cardinality(ids), 0) = 0 or not exists (select from @schema@.hook) then
        return;
    end if;
    for v_hook in select * from @schema@.hook order by id loop
        select jsonb_agg(jsonb_strip_nulls(jsonb_build_object('event', fire.event, 'id', m.id,
                   'namespace', m.namespace, 'topic', m.topic, 'tenant_id', m.tenant_id, 'key', m.key, 'seq', m.seq,
                   'subject', m.subject, 'recipient', m.recipient, 'correlation_id', m.correlation_id,
                   'dedupe_key', m.dedupe_key, 'attempt', a.attempt_no, 'outcome', a.outcome, 'reason', d.reason,
                   'code', coalesce(d.code, a.code), 'error', coalesce(d.error, a.error), 'reference', a.reference,
                   'at', clock_timestamp()))
                   || case when outputs ? m.id::text then jsonb_build_object('output', outputs -> m.id::text) else '{}' end
                   order by m.id)
          into v_events
          from unnest(ids) t(id)
         cross join lateral (
               select s.id, s.namespace, s.topic, s.tenant_id, s.key, s.seq, s.subject, s.recipient, s.correlation_id,
                      s.dedupe_key from @schema@.stored s where s.id = t.id
               union all
               select d.id, d.namespace, d.topic, d.tenant_id, d.key, d.seq, d.subject, d.recipient, d.correlation_id,
                      d.dedupe_key from @schema@.dead d where d.id = t.id
                limit 1) m
          left join lateral (select * from @schema@.attempt_stored a where a.message_id = t.id
                              order by a.attempt_no desc limit 1) a on true
          left join @schema@.dead d on d.id = t.id
         where (v_hook.namespace is null or v_hook.namespace = m.namespace)
           and (v_hook.topic is null or v_hook.topic = m.topic);
        continue when v_events is null;
        begin
            perform set_config('lock_timeout', '200ms', true);
            perform @schema@.call_hook(v_hook.function_schema, v_hook.function_name, v_events);
            set constraints all immediate; -- a deferred one would fail at the commit, and take the outcome with it
            perform set_config('lock_timeout', v_old_timeout, true);
            perform set_config('app.current_tenant_id', v_old_tenant, true);
        exception when others or assert_failure then
            insert into @schema@.hook_failure (hook_id, tenant_id, event, error)
            select v_hook.id, (e ->> 'tenant_id')::uuid, e, sqlstate || ' ' || sqlerrm
              from jsonb_array_elements(v_events) e;
        end;
    end loop;
end
$$;

-- Registers a function(jsonb). The caller must own it, and it must be SECURITY DEFINER with a search_path of its own.
create function @schema@.hook(fn regprocedure, namespace text default null, topic text default null) returns bigint
    language plpgsql security definer
    set search_path = pg_catalog, pg_temp
as $$
#variable_conflict use_column
declare
    p pg_proc;
    v_id bigint;
begin
    perform @schema@.check_no_tenant();
    select * into p from pg_proc where oid = fn;
    if fn is null or p.prokind <> 'f' or p.pronargs <> 1 or p.proargtypes[0] <> 'jsonb'::regtype then
        raise exception 'the hook % is not a function of one jsonb', fn using errcode = 'OB001',
            hint = 'create function name(events jsonb) returns void ...';
    elsif not p.prosecdef or not exists (select from unnest(p.proconfig) c where c like 'search_path=%') then
        raise exception 'the hook % is not SECURITY DEFINER with a fixed search_path', fn using errcode = 'OB001',
            hint = format('alter function %s security definer set search_path = <its schema>, pg_temp', fn);
    elsif not pg_has_role(session_user, p.proowner, 'member') then
        raise exception 'the hook % is not yours', fn using errcode = '42501',
            hint = 'Only the owner of a function registers it, since it runs with the owner''s rights.';
    elsif not has_function_privilege(@schema_text@ || '_hooks', fn::oid, 'execute')
            or not has_schema_privilege(@schema_text@ || '_hooks', p.pronamespace, 'usage') then
        raise exception 'the role % may not call %', @schema_text@ || '_hooks', fn using errcode = '42501',
            hint = format('grant usage on schema %s to %I; grant execute on function %s to %I',
                p.pronamespace::regnamespace, @schema_text@ || '_hooks', fn, @schema_text@ || '_hooks');
    end if;
    -- Registered again it is the same hook: a roll-out that runs twice must not make it run twice.
    select h.id into v_id from @schema@.hook h join pg_namespace n on n.nspname = h.function_schema
     where n.oid = p.pronamespace and h.function_name = p.proname
       and h.namespace is not distinct from hook.namespace and h.topic is not distinct from hook.topic;
    if found then
        return v_id;
    end if;
    insert into @schema@.hook (namespace, topic, function_schema, function_name, registrant)
    values (hook.namespace, hook.topic, (select nspname from pg_namespace where oid = p.pronamespace), p.proname,
            session_user)
    returning id into v_id;
    perform @schema@.record(null, 'hook', null, null, null,
        jsonb_build_object('function', fn::text, 'namespace', hook.namespace, 'topic', hook.topic));
    return v_id;
end
$$;

create function @schema@.unhook(hook_id bigint) returns boolean
    language plpgsql security definer
    set search_path = pg_catalog, pg_temp
as $$
#variable_conflict use_column
declare
    v_hook @schema@.hook;
begin
    perform @schema@.check_no_tenant();
    delete from @schema@.hook h where h.id = hook_id
        and (h.registrant = session_user or pg_has_role(session_user, @schema_text@ || '_operator', 'member'))
        returning * into v_hook;
    if not found then
        return false;
    end if;
    perform @schema@.record(null, 'unhook', null, null, null, jsonb_build_object('function',
        format('%I.%I', v_hook.function_schema, v_hook.function_name)));
    return true;
end
$$;

-- Gives failed events to their hooks again, oldest first; returns how many were taken this time.
create function @schema@.run_failed_hooks(max_count int default 100) returns int
    language plpgsql security definer
    set search_path = pg_catalog, pg_temp
as $$
#variable_conflict use_column
declare
    f record;
    v_taken int := 0;
    v_old_timeout constant text := current_setting('lock_timeout');
    v_old_tenant constant text := coalesce(current_setting('app.current_tenant_id', true), '');
begin
    perform @schema@.check_range('max_count', max_count, 1, 1000000, '');
    for f in select x.id, x.event, h.function_schema, h.function_name
               from @schema@.hook_failure x left join @schema@.hook h on h.id = x.hook_id
              where @schema@.current_tenant() is null or x.tenant_id = @schema@.current_tenant()
              order by x.id limit max_count for update of x skip locked loop
        begin
            perform set_config('lock_timeout', '200ms', true);
            if f.function_name is not null then -- an unhooked function wants nothing any more
                perform @schema@.call_hook(f.function_schema, f.function_name, jsonb_build_array(f.event));
                set constraints all immediate;
            end if;
            perform set_config('lock_timeout', v_old_timeout, true);
            perform set_config('app.current_tenant_id', v_old_tenant, true);
            delete from @schema@.hook_failure x where x.id = f.id;
            v_taken := v_taken + 1;
        exception when others or assert_failure then
            update @schema@.hook_failure x
               set tries = x.tries + 1, error = sqlstate || ' ' || sqlerrm, failed_at = clock_timestamp()
             where x.id = f.id;
        end;
    end loop;
    return v_taken;
end
$$;
