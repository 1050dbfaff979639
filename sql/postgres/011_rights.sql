-- Rights: who owns what, row security, and what each role may do. PUBLIC may do nothing.

do $$
declare
    o record;
    owners constant text[] := '{make_period,purge,purge_create,purge_empty,purge_drop,purge_rest,patiently,renew_defaults,drop_aside,erase_tenant}';
    readers constant text[] := '{messages,queued,dead_letters,acts,outbox}'; -- see 010_views.sql
begin
    for o in select c.relname, c.relkind from pg_class c
              where c.relnamespace = '@schema@'::regnamespace and c.relkind in ('r', 'p', 'v')
                and c.relname <> 'migration' loop
        execute format('alter %s %I.%I owner to %I', case o.relkind when 'v' then 'view' else 'table' end, @schema_text@,
            o.relname, @schema_text@ || case when o.relkind = 'v' and o.relname <> all (readers) then '_api' else '_owner' end);
    end loop;
    for o in select p.oid::regprocedure as signature, p.proname from pg_proc p
              where p.pronamespace = '@schema@'::regnamespace loop
        execute format('alter function %s owner to %I', o.signature, @schema_text@
            || case when o.proname = any (owners) then '_owner' when o.proname = 'call_hook' then '_hooks'
                    when o.proname = 'fire_deferred' then '_nobody' else '_api' end);
        execute format('revoke all on function %s from public', o.signature);
    end loop;
    for o in select t.typname from pg_type t join pg_class c on c.oid = t.typrelid
              where t.typnamespace = '@schema@'::regnamespace and c.relkind = 'c' loop
        execute format('alter type %I.%I owner to %I', @schema_text@, o.typname, @schema_text@ || '_api');
    end loop;

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

-- What the roles needed to be given their objects. From here on only the owner makes objects in the schema, its
-- partitions; a function planted there would be found on the search_path of ours. The role that calls hooks runs foreign
-- code as itself, and owns call_hook: it cannot even look into the schema, or a hook would make call_hook run as api.
revoke create on schema @schema@ from @api@;
revoke all on schema @schema@ from @hooks@, @nobody@;

-- api: what its functions need, and no more. It cannot rewrite an attempt or an act.
grant select, insert on @schema@.message, @schema@.attempt, @schema@.attempt_kept, @schema@.act, @schema@.archived to @api@;
grant select, insert, update, delete on @schema@.queue, @schema@.dead, @schema@.dedupe, @schema@.stream, @schema@.lane,
    @schema@.namespace, @schema@.pause, @schema@.hook, @schema@.hook_failure, @schema@.message_kept to @api@;
grant select, delete on @schema@.message, @schema@.message_default, @schema@.archived to @api@;
grant select on @schema@.attempt_default, @schema@.period to @api@;
grant execute on function @schema@.call_hook, @schema@.fire_deferred to @api@;
-- owner: what retention and erasure call.
grant execute on function @schema@.uuid_at, @schema@.default_in_the_way, @schema@.aside_is_empty, @schema@.keep_messages, @schema@.count_messages,
    @schema@.keep_attempts, @schema@.check_isolation, @schema@.period_width, @schema@.repair_times,
    @schema@.sweep_leftovers, @schema@.attempts_needed, @schema@.record, @schema@.append_only, @schema@.current_tenant,
    @schema@.sees_all to @owner@;

grant execute on function @schema@.enqueue, @schema@.enqueue_bytes, @schema@.enqueue_many to @producer@;

grant execute on function @schema@.claim, @schema@.settle, @schema@.ack, @schema@.nack, @schema@.release, @schema@.extend,
    @schema@.purge, @schema@.run_failed_hooks, @schema@.as_json, @schema@.bell_class, @schema@.bell_channel, @schema@.current_tenant,
    @schema@.sees_all to @relay@;
grant select on @schema@.messages, @schema@.attempts, @schema@.dead_letters, @schema@.status, @schema@.acts,
    @schema@.outbox, @schema@.queued, @schema@.pause, @schema@.namespace, @schema@.lane to @relay@;

grant execute on function @schema@.retry, @schema@.discard, @schema@.pause, @schema@.resume, @schema@.configure,
    @schema@.assign_bell, @schema@.purge, @schema@.erase_tenant, @schema@.erase_subject, @schema@.hook, @schema@.unhook,
    @schema@.run_failed_hooks, @schema@.bell_channel, @schema@.current_tenant, @schema@.sees_all to @operator@;
grant select on @schema@.messages, @schema@.attempts, @schema@.dead_letters, @schema@.status, @schema@.acts,
    @schema@.outbox, @schema@.queued, @schema@.message, @schema@.queue, @schema@.attempt, @schema@.dead, @schema@.dedupe,
    @schema@.stream, @schema@.act, @schema@.pause, @schema@.namespace, @schema@.lane, @schema@.hook, @schema@.hook_failure,
    @schema@.period to @operator@;

grant execute on function @schema@.current_tenant, @schema@.sees_all to @auditor@, @tenant@;
grant execute on function @schema@.uuid_at to @relay@, @operator@, @auditor@, @tenant@;
grant select on @schema@.messages, @schema@.attempts, @schema@.dead_letters, @schema@.status, @schema@.acts,
    @schema@.outbox, @schema@.queued, @schema@.message, @schema@.queue, @schema@.attempt, @schema@.dead, @schema@.dedupe,
    @schema@.act, @schema@.pause, @schema@.namespace, @schema@.lane, @schema@.hook, @schema@.hook_failure, @schema@.period to @auditor@;
grant select on @schema@.messages, @schema@.queued, @schema@.attempts, @schema@.dead_letters, @schema@.acts to @tenant@;

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
