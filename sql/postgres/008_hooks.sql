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
-- Rights. A hook is SECURITY DEFINER, so it has the rights of its owner. That is looked at with every call, and so is its
-- owner: what it is changed into after it was registered is not called. The role that calls it has no other rights.
-- Session. After a hook the session is as before: its settings, cursors, temporary objects and prepared statements. A
-- hook that changed one has failed. Otherwise the rest of the settle, and then the worker, would go on with a search_path
-- of the hook's. What it does with SET LOCAL to the settings that call_hook names ends with the call.
-- Failure. Each call is a subtransaction with a lock_timeout of 200 ms. Deferred constraints are checked at its end, and
-- are immediate for the rest of the transaction. When it fails, what it did is undone, the outcome stands, and the events
-- go to hook_failure, from which run_failed_hooks gives them again, one by one.
-- Time. A statement_timeout that ends a hook ends no settle. It comes only once in a statement, so after it no other hook
-- is called: the events wait in hook_failure, with no tries. A claim calls no hook at all: its events wait there too.

-- The sinks' outputs as JSON. An output that is not JSON, or too deep or too large to be stored as such, becomes a JSON
-- string; the others are unchanged.
create function @schema@.as_json(texts text[]) returns jsonb[]
    language plpgsql stable
    set search_path = pg_catalog, pg_temp
as $$
declare
    v_all jsonb[] := '{}';
    v_text text;
begin
    return texts::jsonb[];
exception when data_exception or program_limit_exceeded then
    foreach v_text in array texts loop
        begin
            v_all := array_append(v_all, v_text::jsonb);
        exception when data_exception or program_limit_exceeded then
            v_all := array_append(v_all, to_jsonb(v_text));
        end;
    end loop;
    return v_all;
end
$$;

create function @schema@.outputs_of(done uuid[], ids uuid[], outputs jsonb[]) returns jsonb
    language sql immutable
as $$
    select case when outputs is not null then
        (select jsonb_object_agg(t.id, t.output) from unnest(ids, outputs) t(id, output)
          where t.output is not null and t.id = any (done)) end
$$;

-- The only function that calls hooks. The role that may call them owns it, and it does nothing else. The settings named
-- here are those that a hook may want to change for itself: what SET LOCAL does to them ends with this call.
create function @schema@.call_hook(function_schema text, function_name text, events jsonb) returns void
    language plpgsql security definer
    set search_path = pg_catalog, pg_temp
    set lock_timeout = '200ms'
    set enable_seqscan = on
    set enable_hashjoin = on
    set enable_mergejoin = on
    set enable_indexscan = on
    set plan_cache_mode = auto
as $$
begin
    execute format('select %I.%I($1)', function_schema, function_name) using events;
end
$$;

-- Fires what a hook, or anybody before it, has deferred. A deferred trigger runs as whoever is there when it fires, at the
-- latest as the one who commits: so it fires here, as a role that may do nothing. Triggers may write, and defer again. The
-- second time they cannot write, so nothing is left.
create function @schema@.fire_deferred() returns void
    language plpgsql security definer
    set search_path = pg_catalog, pg_temp
as $$
begin
    set constraints all immediate;
    begin
        perform set_config('transaction_read_only', 'on', true);
        set constraints all immediate;
    exception when read_only_sql_transaction then
        raise exception 'a deferred trigger defers another that writes' using errcode = 'OB001';
    end;
end
$$;

-- What must be after a hook as it was before, a text each. The hook may have put anything on the search_path by then: so
-- whatever is named here, or is an operator, a cast or a type, says that it is PostgreSQL's own. IN, NULLIF, BETWEEN and
-- IS DISTINCT FROM would look for an operator by its name.
create function @schema@.settings_now() returns text[]
    language plpgsql
as $$
begin
    return array(
        select pg_catalog.concat('the setting ', s.name, ' = ', s.setting) from pg_catalog.pg_settings s
         where s.context operator(pg_catalog.=) any (array['user', 'superuser'])
        union all
        select pg_catalog.concat('the setting ', n.name, ' = ', pg_catalog.current_setting(n.name, true))
          from pg_catalog.unnest(array['role', 'session_authorization', 'app.current_tenant_id', 'outbox.doorbell', 'outbox.more',
               pg_catalog.concat('outbox.memory_', '@schema@.queue'::pg_catalog.regclass::pg_catalog.oid)]) n(name));
end
$$;

-- functions: whose rows in the catalog must be the same.
create function @schema@.things_now(functions oid[]) returns text[]
    language plpgsql
as $$
declare
    v_temp constant oid := pg_catalog.pg_my_temp_schema();
    v_things text[];
begin
    v_things := array(
        select pg_catalog.concat('the cursor ', c.name, ' = ', c.creation_time) from pg_catalog.pg_cursors c where c.is_holdable
        union all
        select pg_catalog.concat('the prepared statement ', s.name, ' = ', s.prepare_time, s.from_sql, s.statement)
          from pg_catalog.pg_prepared_statements s
        union all
        select pg_catalog.concat('the function ', f.oid, ' = ', p.xmin, p.ctid)
          from pg_catalog.unnest(functions) f(oid) left join pg_catalog.pg_proc p on p.oid operator(pg_catalog.=) f.oid);
    if v_temp operator(pg_catalog.<>) '0'::pg_catalog.oid then
        v_things := pg_catalog.array_cat(v_things, array(
            select pg_catalog.concat('the temporary object ', c.relname, ' = ', c.oid) from pg_catalog.pg_class c
             where c.relnamespace operator(pg_catalog.=) v_temp
            union all
            select pg_catalog.concat('the temporary type ', t.typname, ' = ', t.oid) from pg_catalog.pg_type t
             where t.typnamespace operator(pg_catalog.=) v_temp));
    end if;
    return v_things;
end
$$;

-- Prepared statements are not rolled back with a subtransaction. Those that a hook made, maybe under a name that the
-- worker uses, are removed now; those that it removed, the worker must prepare again (26000).
create function @schema@.remove_prepared(things text[]) returns void
    language plpgsql
as $$
declare
    v_name text;
begin
    for v_name in select s.name from pg_prepared_statements s
                   where concat('the prepared statement ', s.name, ' = ', s.prepare_time, s.from_sql, s.statement)
                         <> all (things) loop
        execute format('deallocate %I', v_name);
    end loop;
end
$$;

-- The current function of a hook, unless it may no longer be called.
create function @schema@.hook_function(h @schema@.hook) returns oid
    language plpgsql
as $$
declare
    p pg_proc;
begin
    select x.* into p from pg_proc x join pg_namespace n on n.oid = x.pronamespace
     where n.nspname = h.function_schema and x.proname = h.function_name and x.prokind = 'f' and x.pronargs = 1
       and x.proargtypes[0] = 'jsonb'::regtype;
    if not found then
        raise exception 'the function %.%(jsonb) is gone', h.function_schema, h.function_name using errcode = '42883';
    elsif not p.prosecdef or not exists (select from unnest(p.proconfig) c where c like 'search_path=%') then
        raise exception 'the function %.% is not SECURITY DEFINER with a fixed search_path any more', h.function_schema,
            h.function_name using errcode = '42501';
    elsif pg_get_userbyid(p.proowner) <> h.function_owner then
        raise exception 'the function %.% belongs to % now, not to %', h.function_schema, h.function_name,
            pg_get_userbyid(p.proowner), h.function_owner using errcode = '42501';
    end if;
    return p.oid;
end
$$;

create function @schema@.difference(a text[], b text[]) returns text
    language sql immutable
as $$
    select string_agg(distinct split_part(d, ' = ', 1), ', ') from (
        (select unnest(a) except select unnest(b))
        union all
        (select unnest(b) except select unnest(a))) x(d)
$$;

-- Passes events to a hook. Returns the error, or null.
create function @schema@.give(h @schema@.hook, events jsonb) returns text
    language plpgsql
as $$
declare
    v_functions oid[];
    v_settings text[];
    v_settings_after text[];
    v_things text[];
    v_things_after text[];
    v_error text;
begin
    begin
        v_functions := array[@schema@.hook_function(h),
            '@schema@.call_hook(text,text,jsonb)'::regprocedure, '@schema@.fire_deferred()'::regprocedure];
        v_settings := @schema@.settings_now();
        v_things := @schema@.things_now(v_functions);
        perform @schema@.call_hook(h.function_schema, h.function_name, events);
        -- Until all is compared, every name and operator must say where it is from.
        perform @schema@.fire_deferred();
        v_settings_after := @schema@.settings_now();
        v_things_after := @schema@.things_now(v_functions);
        -- A library that the hook loaded may have brought settings of its own.
        if v_things_after operator(pg_catalog.<>) v_things or (v_settings_after operator(pg_catalog.<>) v_settings
                and not v_settings operator(pg_catalog.<@) v_settings_after) then
            raise sqlstate 'OB001';
        end if;
    exception
        when sqlstate 'OB001' then
            v_error := 'OB001 ' || case when v_things_after is null then sqlerrm
                else 'the hook left changed: ' || @schema@.difference(v_settings || v_things,
                    v_settings_after || v_things_after) end;
        when others or assert_failure or query_canceled then
            v_error := sqlstate || ' ' || sqlerrm; -- the session is as it was at the beginning of the block
    end;
    perform @schema@.remove_prepared(v_things);
    return v_error;
end
$$;

-- The events that a hook gets for these messages; null: it is not registered for any of them.
create function @schema@.events_for(h @schema@.hook, event text, ids uuid[], outputs jsonb) returns jsonb
    language plpgsql
    set plan_cache_mode = force_custom_plan -- see spans_of
as $$
#variable_conflict use_column
declare
    v_spans constant record := @schema@.spans_of(array(select i from unnest(ids) i order by i));
begin
    return (select jsonb_agg(jsonb_strip_nulls(jsonb_build_object('event', events_for.event, 'id', m.id,
               'namespace', m.namespace, 'topic', m.topic, 'tenant_id', m.tenant_id, 'key', m.key, 'seq', m.seq,
               'subject', m.subject, 'recipient', m.recipient, 'correlation_id', m.correlation_id,
               'dedupe_key', m.dedupe_key, 'attempt', a.attempt_no, 'outcome', a.outcome, 'reason', d.reason,
               'code', coalesce(d.code, a.code), 'error', coalesce(d.error, a.error), 'reference', a.reference,
               'at', clock_timestamp()))
               || case when outputs ? m.id::text then jsonb_build_object('output', outputs -> m.id::text) else '{}' end
               order by m.id)
      from unnest(ids) t(id)
     cross join lateral (
           select s.id, s.namespace, s.topic, s.tenant_id, s.key, s.seq, s.subject, s.recipient, s.correlation_id,
                  s.dedupe_key from @schema@.stored s where s.id = t.id and @schema@.within(s.id, v_spans.low, v_spans.high)
           union all
           select d.id, d.namespace, d.topic, d.tenant_id, d.key, d.seq, d.subject, d.recipient, d.correlation_id,
                  d.dedupe_key from @schema@.dead d where d.id = t.id
            limit 1) m
      left join lateral (select * from @schema@.attempt_single a
                          where a.message_id = t.id and @schema@.within(a.message_id, v_spans.low, v_spans.high)
                          order by a.attempt_no desc limit 1) a on true
      left join @schema@.dead d on d.id = t.id
     where (h.namespace is null or h.namespace = m.namespace) and (h.topic is null or h.topic = m.topic));
end
$$;

-- Keeps events for run_failed_hooks. error null: they were not passed to the hook yet.
create function @schema@.keep_events(hook_id bigint, events jsonb, error text) returns void
    language sql
as $$
    insert into @schema@.hook_failure (hook_id, tenant_id, event, tries, error)
    select hook_id, (e ->> 'tenant_id')::uuid, e, (error is not null)::int, error from jsonb_array_elements(events) e
$$;

-- later: run_failed_hooks calls the hooks afterwards.
create function @schema@.fire(event text, ids uuid[], outputs jsonb, later boolean default false) returns void
    language plpgsql
as $$
#variable_conflict use_column
declare
    v_events jsonb;
    v_hook @schema@.hook;
    v_error text;
begin
    if coalesce(cardinality(ids), 0) = 0 or not exists (select from @schema@.hook) then
        return;
    end if;
    for v_hook in select * from @schema@.hook order by id loop
        v_events := @schema@.events_for(v_hook, fire.event, ids, outputs);
        continue when v_events is null;
        v_error := null;
        if not later then
            v_error := @schema@.give(v_hook, v_events);
            continue when v_error is null;
            later := v_error like '57014%';
        end if;
        perform @schema@.keep_events(v_hook.id, v_events, v_error);
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
        update @schema@.hook h set function_owner = pg_get_userbyid(p.proowner) where h.id = v_id;
        return v_id;
    end if;
    insert into @schema@.hook (namespace, topic, function_schema, function_name, function_owner, registrant)
    values (hook.namespace, hook.topic, (select nspname from pg_namespace where oid = p.pronamespace), p.proname,
            pg_get_userbyid(p.proowner), session_user)
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

-- Passes waiting events to their hooks, oldest first; returns how many were accepted this time. due_only: those not
-- tried yet, and failed ones after a pause that doubles with each try; for a second at most. That is how relays call
-- it.
create function @schema@.run_failed_hooks(max_count int default 100, due_only boolean default false) returns int
    language plpgsql security definer
    set search_path = pg_catalog, pg_temp
as $$
#variable_conflict use_column
declare
    f record;
    v_start constant timestamptz := clock_timestamp();
    v_taken int := 0;
    v_error text;
begin
    perform @schema@.check_range('max_count', max_count, @operate_min@, @operate_max@, '', '@operate_range@');
    for f in select x.id, x.event, h as hook
               from @schema@.hook_failure x left join @schema@.hook h on h.id = x.hook_id
              where (@schema@.current_tenant() is null or x.tenant_id = @schema@.current_tenant())
                and (not due_only or x.tries = 0
                     or x.failed_at < v_start - least(2 ^ least(x.tries, 20), 3600) * interval '1 s')
              order by x.id limit max_count for update of x skip locked loop
        v_error := null;
        if (f.hook).id is not null then -- an unhooked function wants nothing any more
            v_error := @schema@.give(f.hook, jsonb_build_array(f.event));
        end if;
        if v_error is null then
            delete from @schema@.hook_failure x where x.id = f.id;
            v_taken := v_taken + 1;
        else
            update @schema@.hook_failure x
               set tries = x.tries + 1, error = v_error, failed_at = clock_timestamp()
             where x.id = f.id;
        end if;
        exit when v_error like '57014%' or (due_only and clock_timestamp() > v_start + interval '1 s');
    end loop;
    return v_taken;
end
$$;
