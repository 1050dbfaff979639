-- Rights: who owns what, row security, and what each role may do. Nobody else may do anything, PUBLIC included.
--
-- wanted_rights and wanted_owner are the only definition of this. wrong_rights compares the catalog with them, and
-- returns the statement that fixes each difference: this migration runs them all, and `outbox doctor` shows later
-- differences.

-- Names and roles are lists. A role that is not named has no right. An owner has all rights on its objects.
create function @schema@.wanted_rights() returns table (kind text, name text, role text, privilege text)
    language sql immutable
    set search_path = pg_catalog, pg_temp
as $$
    select w.kind, n.name, r.role, p.privilege
      from (values
        ('schema', @schema_text@, 'api producer relay operator auditor tenant', 'USAGE'),

        -- api: what its functions need, and no more. It cannot rewrite an attempt or an act.
        ('relation', 'attempt attempt_kept act', 'api', 'SELECT INSERT'),
        ('relation', 'message archived', 'api', 'SELECT INSERT DELETE'),
        ('relation', 'queue dead dedupe stream lane namespace pause hook hook_failure message_kept relay tuning log_window log_shard log_quiet token series', 'api',
            'SELECT INSERT UPDATE DELETE'),
        ('relation', 'message_default', 'api', 'SELECT DELETE'),
        ('relation', 'attempt_default period attempt_single attempt_shared attempt_stored log_waiting log_sample log_taken messages', 'api', 'SELECT'),
        ('relation', 'repair pos', 'api', 'USAGE SELECT'),
        ('function', 'call_hook fire_deferred', 'api', 'EXECUTE'),
        -- owner: what retention and erasure call.
        ('function', 'uuid_at ten_seconds_of default_in_the_way aside_is_over keep_messages count_messages keep_attempts check_isolation '
            'period_width repair_times clear_log clear_log_of_default clear_log_finally hold_log sweep_leftovers attempts_needed record append_only '
            'current_tenant sees_all cluster_id', 'owner', 'EXECUTE'),

        ('function', 'enqueue enqueue_bytes enqueue_many', 'producer', 'EXECUTE'),
        ('function', 'claim take confirm_window settle settle_window ack nack release extend as_json beat doorbell_class record_history', 'relay', 'EXECUTE'),
        ('function', 'rebase', 'relay operator', 'EXECUTE'),
        ('function', 'check_token', 'relay', 'EXECUTE'),
        ('function', 'create_token revoke_token', 'operator', 'EXECUTE'),
        ('relation', 'tokens', 'operator auditor', 'SELECT'),
        ('relation', 'window_messages', 'relay', 'SELECT'),
        ('function', 'log_range', 'relay', 'EXECUTE'),
        ('function', 'handed_out cluster_id', 'relay operator auditor tenant', 'EXECUTE'),
        ('function', 'purge run_failed_hooks doorbell_channel', 'relay operator', 'EXECUTE'),
        ('function', 'retry discard operate pause resume configure assign_doorbell erase_tenant erase_subject hook unhook tune', 'operator',
            'EXECUTE'),
        ('function', 'gauges topics waiting_keys wrong_log wanted_rights wanted_owner wrong_rights', 'relay operator auditor', 'EXECUTE'),
        ('function', 'current_tenant sees_all uuid_at ten_seconds_of like_of explain explain_missing obstacles head_of relay_alive', 'relay operator auditor tenant', 'EXECUTE'),
        ('relation', 'notice', 'api', 'SELECT INSERT UPDATE DELETE'),
        ('function', 'dead_news tell_news', 'relay', 'EXECUTE'),
        ('function', 'groups group_candidates sinks_of', 'relay operator auditor tenant', 'EXECUTE'),

        ('relation', 'messages queued attempts dead_letters acts log_depth error_groups', 'relay operator auditor tenant', 'SELECT'),
        ('relation', 'listing_message listing_queue listing_log listing_window listing_dead listing_discarded',
            'relay operator auditor tenant', 'SELECT'),
        ('relation', 'tail_message tail_facts tail_attempt tail_dead tail_act', 'relay operator auditor tenant', 'SELECT'),
        ('function', 'xid_at', 'relay operator auditor tenant', 'EXECUTE'),
        ('relation', 'status outbox pause pauses namespace lane relay tuning relays sinks tunings migration series', 'relay operator auditor',
            'SELECT'),
        ('relation', 'message queue attempt dead dedupe act hook hook_failure period log_window', 'operator auditor', 'SELECT'),
        ('relation', 'stream', 'operator', 'SELECT')) w(kind, names, roles, privileges),
        unnest(case w.kind when 'schema' then array[w.names] else string_to_array(w.names, ' ') end) n(name),
        unnest(string_to_array(w.roles, ' ')) r(role), unnest(string_to_array(w.privileges, ' ')) p(privilege)
$$;

create function @schema@.wanted_owner(kind text, name text) returns text
    language sql immutable
    set search_path = pg_catalog, pg_temp
as $$
    select case when kind in ('schema', 'table', 'sequence') then 'owner'
                when kind = 'view' and name in ('messages', 'queued', 'dead_letters', 'acts', 'outbox', 'attempt_single', 'attempt_shared', 'attempt_stored', 'log_head',
                    'log_waiting', 'log_sample', 'log_taken', 'log_depth', 'listing_message', 'listing_queue', 'listing_log', 'listing_window', 'listing_dead', 'listing_discarded',
                    'tail_message', 'tail_facts', 'tail_attempt', 'tail_dead', 'tail_act') then 'owner' -- 011_views.sql
                when kind <> 'function' then 'api'
                when name in ('make_period', 'strip_rights', 'purge', 'purge_create', 'purge_empty', 'purge_drop', 'purge_rest',
                    'patiently', 'renew_defaults', 'drop_aside', 'erase_tenant') then 'owner'
                when name = 'call_hook' then 'hooks'
                when name = 'fire_deferred' then 'nobody'
                else 'api' end
$$;

-- Every difference, in the order in which they can be fixed. An object of a role that is neither ours nor one that migrated is
-- not the outbox's: to give it to one of our roles would make it run with that role's rights.
create function @schema@.wrong_rights() returns table (step int, problem text, fix text)
    language sql stable
    set search_path = pg_catalog, pg_temp
as $$
    with ours as (
        select r.oid, r.rolname as name, substring(r.rolname from length(@schema_text@) + 2) as suffix
          from pg_roles r where r.rolname = any (array[@owner_text@, @api_text@, @hooks_text@, @nobody_text@, @producer_text@,
               @relay_text@, @operator_text@, @auditor_text@, @tenant_text@])
    ), migrator as (
        select r.oid from pg_roles r
         where r.rolname in (select m.applied_by from @schema@.migration m)
            or r.rolname = session_user and pg_has_role(session_user, @owner_text@, 'member')
    ), object as (
        select 'schema' as kind, 'schema' as alter_kind, 'schema' as grant_kind, n.nspname::text as name,
               format('%I', n.nspname) as target, n.nspowner as owner, coalesce(n.nspacl, acldefault('n', n.nspowner)) as acl
          from pg_namespace n where n.nspname = @schema_text@
        union all
        select 'relation', case c.relkind when 'v' then 'view' when 'S' then 'sequence' else 'table' end,
               case c.relkind when 'S' then 'sequence' else 'table' end,
               regexp_replace(c.relname, '^(message|attempt)_aside_.*', '\1_default'), format('%I.%I', @schema_text@, c.relname),
               c.relowner, coalesce(c.relacl, acldefault(case c.relkind when 'S' then 's' else 'r' end::"char", c.relowner))
          from pg_class c where c.relnamespace = '@schema@'::regnamespace and c.relkind in ('r', 'p', 'v', 'm', 'f', 'S')
        union all
        select 'function', 'routine', 'routine', p.proname, p.oid::regprocedure::text, p.proowner,
               coalesce(p.proacl, acldefault('f', p.proowner))
          from pg_proc p where p.pronamespace = '@schema@'::regnamespace
        union all
        select 'type', 'type', 'type', t.typname, format('%I.%I', @schema_text@, t.typname), t.typowner,
               coalesce(t.typacl, acldefault('T', t.typowner))
          from pg_type t left join pg_class c on c.oid = t.typrelid
         where t.typnamespace = '@schema@'::regnamespace and coalesce(c.relkind = 'c', t.typtype in ('d', 'e', 'r'))
    ), given as (
        select o.kind, o.grant_kind, o.name, o.target, a.grantee, a.privilege_type as privilege, a.is_grantable
          from object o, aclexplode(o.acl) a
         where a.grantee <> o.owner and not (o.kind = 'type' and a.grantee = 0)
    ), wanted as (
        select o.kind, o.grant_kind, o.name, o.target, r.oid as grantee, r.name as grantee_name, w.privilege
          from @schema@.wanted_rights() w join object o on o.kind = w.kind and o.name = w.name
          join ours r on r.suffix = w.role
         where r.oid <> o.owner
    )
    select 1, format('the role %s %s', r.rolname, concat_ws(' and ', case when r.rolcanlogin then 'can log in' end,
               case when r.rolsuper then 'is a superuser' end, case when r.rolbypassrls then 'bypasses row security' end,
               case when r.rolcreaterole or r.rolcreatedb or r.rolreplication then 'has rights on the whole server' end)),
           format('alter role %I nologin nosuperuser nobypassrls nocreaterole nocreatedb noreplication', r.rolname)
      from pg_roles r join ours o on o.oid = r.oid
     where r.rolcanlogin or r.rolsuper or r.rolbypassrls or r.rolcreaterole or r.rolcreatedb or r.rolreplication
    union all
    select 1, format('%s is a member of %s, which nobody should be', m.rolname, o.name), format('revoke %I from %I', o.name, m.rolname)
      from pg_auth_members a join ours o on o.oid = a.roleid and o.suffix in ('owner', 'api', 'hooks', 'nobody')
      join pg_roles m on m.oid = a.member
     where not exists (select from migrator g where g.oid = m.oid)
    union all
    select 2, format('the %s %s belongs to %s', o.alter_kind, o.target, pg_get_userbyid(o.owner)),
           case when o.kind = 'schema' or exists (select from migrator g where g.oid = o.owner)
                     or exists (select from ours r where r.oid = o.owner)
                then format('alter %s %s owner to %I', o.alter_kind, o.target, w.name)
                else format('drop %s %s', o.alter_kind, o.target) end
      from object o join ours w on w.suffix = @schema@.wanted_owner(case o.kind when 'relation' then o.alter_kind else o.kind end,
               o.name)
     where o.owner <> w.oid
       and not (o.alter_kind = 'sequence' and exists (select from pg_depend d where d.classid = 'pg_class'::regclass
                and d.objid = o.target::regclass and d.deptype in ('a', 'i'))) -- it goes with its table
    union all
    select 3, format('%s has the right %s on the %s %s', case g.grantee when 0 then 'PUBLIC' else pg_get_userbyid(g.grantee) end,
               g.privilege, g.grant_kind, g.target),
           format('revoke %s on %s %s from %s cascade', g.privilege, g.grant_kind, g.target,
               case g.grantee when 0 then 'public' else quote_ident(pg_get_userbyid(g.grantee)) end)
      from given g
     where g.is_grantable or not exists (select from wanted w where w.kind = g.kind and w.target = g.target
               and w.grantee = g.grantee and w.privilege = g.privilege)
    union all
    select 3, format('%s has the right %s on the column %s of %s', case a.grantee when 0 then 'PUBLIC'
               else pg_get_userbyid(a.grantee) end, a.privilege_type, c.attname, c.attrelid::regclass),
           format('revoke %s (%I) on %s from %s cascade', a.privilege_type, c.attname, c.attrelid::regclass,
               case a.grantee when 0 then 'public' else quote_ident(pg_get_userbyid(a.grantee)) end)
      from pg_class r join pg_attribute c on c.attrelid = r.oid, aclexplode(c.attacl) a
     where r.relnamespace = '@schema@'::regnamespace
    union all
    select 4, format('%s lacks the right %s on the %s %s', w.grantee_name, w.privilege, w.grant_kind, w.target),
           format('grant %s on %s %s to %I', w.privilege, w.grant_kind, w.target, w.grantee_name)
      from wanted w
     where not exists (select from given g where g.kind = w.kind and g.target = w.target and g.grantee = w.grantee
               and g.privilege = w.privilege)
    union all
    select 4, format('row security of the table %s is off', c.oid::regclass),
           format('alter table %s enable row level security, force row level security', c.oid::regclass)
      from pg_class c
     where c.relnamespace = '@schema@'::regnamespace and c.relkind in ('r', 'p')
       and not (c.relrowsecurity and c.relforcerowsecurity)
       and exists (select from pg_attribute a where a.attrelid = c.oid and a.attname = 'tenant_id')
$$;

do $$
declare
    o record;
begin
    -- A tenant's data is only its own, also to the owner. api has a policy of its own: its functions decide.
    for o in select c.relname from pg_class c where c.relnamespace = '@schema@'::regnamespace
               and c.relkind in ('r', 'p') and exists (select from pg_attribute a where a.attrelid = c.oid
               and a.attname = 'tenant_id') loop
        execute format('alter table %I.%I enable row level security, force row level security', @schema_text@, o.relname);
        -- (select ...): asked once, not for every row.
        execute format('create policy tenant on %1$I.%2$I using (tenant_id = (select %1$I.current_tenant())) '
            'with check (tenant_id = (select %1$I.current_tenant()))', @schema_text@, o.relname);
        execute format('create policy api on %I.%I to %I using (true) with check (true)', @schema_text@, o.relname,
            @schema_text@ || '_api');
        -- For the views that are the owner's. Its functions are in no role that sees all.
        execute format('create policy views on %1$I.%2$I for select to %3$I using ((select %1$I.current_tenant() is null '
            'and %1$I.sees_all()))', @schema_text@, o.relname, @schema_text@ || '_owner');
        execute format('create policy reader on %I.%I for select to %I, %I using (nullif(current_setting('
            '''app.current_tenant_id'', true), '''') is null)', @schema_text@, o.relname, @schema_text@ || '_operator',
            @schema_text@ || '_auditor');
    end loop;
end
$$;

-- What a function depends on is fixed with its search_path: settings that change the meaning of texts, and row security.
-- Each costs a call more than a microsecond. put, which is called once a message, turns no time, bytes, float or array into text
-- or back, and compares nothing with a null that is written out: it needs the first two only. enqueue and enqueue_bytes fix
-- nothing: see there.
do $$
declare
    f regprocedure;
    v_name text;
begin
    for f, v_name in select p.oid, p.proname from pg_proc p where p.pronamespace = '@schema@'::regnamespace
                and exists (select from unnest(p.proconfig) c where c like 'search_path=%') loop
        execute format('alter function %s set row_security = on', f);
        execute format('alter function %s set standard_conforming_strings = on', f);
        continue when v_name = 'put';
        execute format('alter function %s set datestyle = ''ISO, YMD''', f);
        execute format('alter function %s set intervalstyle = postgres', f);
        execute format('alter function %s set timezone = ''UTC''', f);
        execute format('alter function %s set bytea_output = hex', f);
        execute format('alter function %s set extra_float_digits = 1', f);
        execute format('alter function %s set array_nulls = on', f);
        execute format('alter function %s set transform_null_equals = off', f);
    end loop;
end
$$;

-- From here on only the owner creates objects in the schema: partitions. The roles that run foreign code have no access
-- to it. A role needs the right to create in a schema to become the owner of an object there, unless a superuser
-- transfers it.
grant create on schema @schema@ to @owner@, @api@, @hooks@, @nobody@;
do $$
declare
    v_fix text;
    v_wrong text;
begin
    for v_step in 2..4 loop
        foreach v_fix in array array(select w.fix from @schema@.wrong_rights() w where w.step = v_step) loop
            if v_fix like 'drop %' then
                raise exception 'the schema holds something that is not of the outbox' using errcode = 'OB008',
                    hint = format('Look at it, then: %s', v_fix);
            end if;
            execute v_fix;
        end loop;
    end loop;
    select string_agg(w.problem, '; ') into v_wrong from @schema@.wrong_rights() w where w.step > 1;
    if v_wrong is not null then
        raise exception 'the rights of the outbox cannot be set: %', left(v_wrong, 400) using errcode = 'OB008',
            hint = 'Migrate as the role that migrated before, or as a superuser.';
    end if;
end
$$;

-- The first partitions.
do $$
declare
    step record;
begin
    loop
        select * into step from @schema@.purge();
        exit when not step.more;
    end loop;
end
$$;
