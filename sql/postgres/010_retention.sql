-- Retention: creates upcoming partitions and drops old ones; rows are never deleted one by one.
--
-- Partition DDL takes locks that producers would queue behind, so each step runs under a lock_timeout of 50 ms, is
-- tried a few times, and is its own transaction: purge does one step per call, and reports whether there is more.
--
--   ATTACH       SHARE UPDATE EXCLUSIVE on the parent (producers go on), ACCESS EXCLUSIVE on the default partition, which
--                is read as a whole: so it must be small; if it is not, it is set aside (renew_default)
--   TRUNCATE     ACCESS EXCLUSIVE on the old leaf only
--   DROP         ACCESS EXCLUSIVE on the parent, behind any producer's open transaction: may fail, and then the empty
--                leaf waits for the next purge
--
-- Rows that are still needed are moved out first. Then purge takes a SHARE lock on the leaf: an open transaction that
-- enqueued there makes it wait, and so keeps its messages. Needed are undelivered messages, dead ones with their
-- attempts, and those settled within the retention time, however old they are. So retry and purge need no coordination:
-- the message of a dead letter is in message or in message_kept, and purge removes it from neither.
--
-- The log is read from the partitions of message. So before one goes, what waits there is put into the queue; and while a window
-- is open that has messages of it, it stays: they are read again if the window's worker does not come back.

-- A new table may have rights from ALTER DEFAULT PRIVILEGES.
create function @schema@.strip_rights(name text) returns void
    language plpgsql
as $$
declare
    v_grantee oid;
begin
    for v_grantee in select distinct a.grantee from pg_class c, aclexplode(c.relacl) a
                      where c.oid = format('%I.%I', @schema_text@, name)::regclass and a.grantee <> c.relowner loop
        execute format('revoke all on %I.%I from %s cascade', @schema_text@, name,
            case v_grantee when 0 then 'public' else quote_ident(pg_get_userbyid(v_grantee)) end);
    end loop;
end
$$;

-- Whether the log still needs a partition.
create function @schema@.log_needs(part oid) returns boolean
    language plpgsql
as $$
begin
    return exists (select from @schema@.log_waiting w where w.leaf = part) or exists (select from @schema@.log_taken t where t.leaf = part);
end
$$;

-- Puts what the log has of a partition into the queue. Null: it has nothing there; 'keep': that was some of it; 'wait': it
-- cannot now, messages of it are being delivered.
create function @schema@.clear_log(part oid) returns text
    language plpgsql security definer
    set search_path = pg_catalog, pg_temp
as $$
begin
    return case when not @schema@.log_needs(part) then null
                when @schema@.admit(20000) > 0 or not @schema@.log_needs(part) then 'keep' -- admitted, or repaired
                else 'wait' end;
end
$$;

-- The same for the default partition, where producers may still be writing: when not much is left, nobody may take windows until
-- the end of the transaction, and those that are open have two seconds to close.
create function @schema@.clear_log_of_default() returns text
    language plpgsql security definer
    set search_path = pg_catalog, pg_temp
as $$
declare
    v_default constant oid := '@schema@.message_default'::regclass;
begin
    if @schema@.log_needs(v_default) and @schema@.admit(20000) > 5000 then
        return 'keep';
    end if;
    perform from @schema@.log_shard x order by x.shard for update;
    for v_try in 1..100 loop
        if not exists (select from @schema@.log_taken t where t.leaf = v_default) then
            return null;
        end if;
        perform pg_sleep(0.02);
    end loop;
    return 'wait';
end
$$;

-- The rest, under the lock that keeps producers out. Whatever still needs the partition then is an error that purge repeats.
create function @schema@.clear_log_finally(part oid) returns void
    language plpgsql security definer
    set search_path = pg_catalog, pg_temp
as $$
begin
    if @schema@.log_needs(part) then
        perform @schema@.admit(100000);
        if @schema@.log_needs(part) then
            raise lock_not_available;
        end if;
    end if;
end
$$;

-- Creates the partitions of one period. Runs as the owner.
create function @schema@.make_period(p_start timestamptz, p_finish timestamptz) returns void
    language plpgsql
as $$
declare
    v_suffix constant text := to_char(p_start at time zone 'UTC', 'YYYYMMDD_HH24MI');
    v_parent text;
begin
    foreach v_parent in array '{message,attempt}'::text[] loop
        execute format('create table %1$I.%2$I (like %1$I.%3$I including all)', @schema_text@, v_parent || '_' || v_suffix, v_parent);
        perform @schema@.strip_rights(v_parent || '_' || v_suffix);
        execute format('alter table %I.%I enable row level security, force row level security', @schema_text@,
            v_parent || '_' || v_suffix);
        if v_parent = 'attempt' then
            execute format('create trigger append_only_truncate before truncate on %1$I.%2$I execute function %1$I.append_only()',
                @schema_text@, v_parent || '_' || v_suffix);
        end if;
        execute format('alter table %1$I.%2$I attach partition %1$I.%3$I for values from (%4$L) to (%5$L)', @schema_text@, v_parent,
            v_parent || '_' || v_suffix, @schema@.uuid_at(p_start), @schema@.uuid_at(p_finish));
    end loop;
    insert into @schema@.period (start, finish, suffix) values (p_start, p_finish, v_suffix);
end
$$;

-- Whether a default partition holds rows of a period, or is too large to be read as a whole.
create function @schema@.default_in_the_way(low uuid, high uuid) returns boolean
    language plpgsql security definer
    set search_path = pg_catalog, pg_temp
as $$
begin
    return greatest(pg_relation_size('@schema@.message_default'), pg_relation_size('@schema@.attempt_default')) > 4194304
        or exists (select from @schema@.message_default m where m.id >= low and m.id < high)
        or exists (select from @schema@.attempt_default a where a.message_id >= low and a.message_id < high);
end
$$;

-- Purge did not run for a long time, and rows went to the default partitions. These are set aside as a whole, as
-- children of message_kept and attempt_kept, and replaced by empty ones: however many rows there are, none is read but those in the log.
-- After the locks are taken, ACCESS EXCLUSIVE on the parents, only the catalog changes. The locks are held to the end
-- of the transaction, so that the period gets its partitions before the next row arrives. Rows set aside are removed
-- with the leftovers. Runs as the owner.
create function @schema@.renew_defaults() returns void
    language plpgsql
as $$
declare
    v_suffix constant text := '_aside_' || to_char(clock_timestamp() at time zone 'UTC', 'YYYYMMDD_HH24MISS_US');
    v_parent text;
    v_default text;
    v_new text;
begin
    foreach v_parent in array '{message,attempt}'::text[] loop
        v_new := v_parent || '_default_new';
        execute format('create table %1$I.%2$I (like %1$I.%3$I including all)', @schema_text@, v_new, v_parent);
        execute format('alter table %I.%I enable row level security, force row level security', @schema_text@, v_new);
        execute format('create policy api on %I.%I to %I using (true)', @schema_text@, v_new, @schema_text@ || '_api');
        perform @schema@.strip_rights(v_new);
        execute format('grant select%s on %I.%I to %I', case v_parent when 'message' then ', delete' else '' end, @schema_text@,
            v_new, @schema_text@ || '_api'); -- as wanted_rights has it
    end loop;
    lock table only @schema@.message, only @schema@.attempt in access exclusive mode;
    perform @schema@.clear_log_finally('@schema@.message_default'::regclass);
    foreach v_parent in array '{message,attempt}'::text[] loop
        v_default := v_parent || '_default';
        execute format('alter table %1$I.%2$I detach partition %1$I.%3$I', @schema_text@, v_parent, v_default);
        execute format('alter table %I.%I rename to %I', @schema_text@, v_default, v_parent || v_suffix);
        execute format('alter table %I.%I rename to %I', @schema_text@, v_default || '_new', v_default);
        execute format('alter table %1$I.%2$I attach partition %1$I.%3$I default', @schema_text@, v_parent, v_default);
        execute format('alter table %1$I.%2$I inherit %1$I.%3$I', @schema_text@, v_parent || v_suffix, v_parent || '_kept');
    end loop;
    execute format('create trigger append_only_truncate before truncate on %1$I.attempt_default execute function '
        '%1$I.append_only()', @schema_text@);
    execute format('create trigger append_only before update or delete on %1$I.%2$I for each row execute function '
        '%1$I.append_only()', @schema_text@, 'attempt' || v_suffix);
end
$$;

-- Whether nothing is left in a table that was put aside, or nothing that is wanted; nothing ever comes into one. Messages leave
-- one by one. Attempts leave with their table, each for itself: a dead letter of another time keeps none but its own. old: all
-- of them ended before the time that attempts are kept for.
create function @schema@.aside_is_over(aside oid, old boolean, attempts_before timestamptz) returns boolean
    language plpgsql security definer
    set search_path = pg_catalog, pg_temp
as $$
begin
    return not exists (select from @schema@.message_kept k where k.tableoid = aside)
        and (not exists (select from @schema@.attempt_kept k where k.tableoid = aside)
          or old and not exists (
              select from (select d.id from @schema@.dead d
                           union all
                           select q.id from @schema@.queue q where q.id < @schema@.uuid_at(attempts_before)) w,
                     lateral (select from @schema@.attempt_kept a where a.message_id = w.id and a.tableoid = aside offset 0) a));
end
$$;

create function @schema@.drop_aside(attempts_before timestamptz) returns void
    language plpgsql
as $$
declare
    v_aside record;
begin
    for v_aside in select i.inhrelid as id, c.relname from pg_inherits i join pg_class c on c.oid = i.inhrelid
                    where i.inhparent in ('@schema@.message_kept'::regclass, '@schema@.attempt_kept'::regclass) loop
        if @schema@.aside_is_over(v_aside.id, v_aside.relname < 'attempt_aside_'
                || to_char(attempts_before at time zone 'UTC', 'YYYYMMDD_HH24MISS_US'), attempts_before) then
            execute format('drop table %I.%I', @schema_text@, v_aside.relname);
        end if;
    end loop;
end
$$;

-- Moves rows that must outlive their partition out of a period: those in the queue or dead, and those settled late. The
-- remaining rows are none of these, and can never become so again. Returns how many were moved. Runs as api, which sees
-- all tenants' rows.
create function @schema@.keep_messages(low uuid, high uuid, cutoff timestamptz, stubs boolean, most bigint) returns bigint
    language plpgsql security definer
    set search_path = pg_catalog, pg_temp
as $$
declare
    v_moved bigint;
begin
    if stubs then
        insert into @schema@.archived
        select m.id, m.created_at, m.tenant_id, m.seq, m.namespace, m.topic, m.key, m.dedupe_key, m.subject, m.correlation_id
          from @schema@.message m where m.id >= low and m.id < high
           and not exists (select from @schema@.archived k where k.id = m.id)
            on conflict (id) do nothing;
    end if;
    with gone as (
        delete from @schema@.message m
         where m.id >= low and m.id < high
           and m.id = any (array(
               select w.id from (
                   select q.id from @schema@.queue q where q.id >= low and q.id < high
                   union all
                   select d.id from @schema@.dead d where d.id >= low and d.id < high
                   union all
                   select a.message_id from @schema@.attempt_single a
                    where a.message_id >= low and a.message_id < high and a.completed_at >= cutoff
                   union all
                   select unnest(a.ids) from @schema@.attempt a
                    where a.message_id >= low and a.message_id < high and a.ids is not null and a.completed_at >= cutoff
                   union all
                   select unnest(a.ids) from @schema@.attempt_kept a
                    where a.message_id >= low and a.message_id < high and a.ids is not null and a.completed_at >= cutoff) w
                where exists (select from @schema@.message x where x.id = w.id and x.id >= low and x.id < high)
                limit most))
        returning m.*
    )
    insert into @schema@.message_kept select * from gone on conflict (id) do nothing;
    get diagnostics v_moved = row_count;
    return v_moved;
end
$$;

create function @schema@.count_messages(low uuid, high uuid) returns bigint
    language sql security definer
    set search_path = pg_catalog, pg_temp
as $$
    select count(*) from @schema@.message m where m.id >= low and m.id < high
$$;

create function @schema@.keep_attempts(low uuid, high uuid, cutoff timestamptz) returns void
    language sql security definer
    set search_path = pg_catalog, pg_temp
as $$
    insert into @schema@.attempt_kept
    select a.* from @schema@.attempt a
     where a.message_id >= low and a.message_id < high
       and (a.completed_at >= cutoff
         or a.message_id in (select q.id from @schema@.queue q where q.id >= low and q.id < high)
         or a.message_id in (select d.id from @schema@.dead d where d.id >= low and d.id < high))
        on conflict do nothing
$$;

-- Removes leftovers of retired periods: a bounded number of rows per call. attempt_kept and the default of attempt are
-- emptied as a whole, by the owner, once nothing in them is needed: see purge.
create function @schema@.sweep_leftovers(messages_before timestamptz, attempts_before timestamptz) returns bigint
    language plpgsql security definer
    set search_path = pg_catalog, pg_temp
as $$
declare
    v_before constant uuid := @schema@.uuid_at(messages_before);
    v_messages bigint;
    v_stubs bigint;
begin
    with gone as (
        delete from @schema@.message_kept k where k.id in (
            select x.id from @schema@.message_kept x where x.id < v_before
               and not exists (select from @schema@.queue q where q.id = x.id)
               and not exists (select from @schema@.dead d where d.id = x.id)
               and not exists (select from @schema@.attempt_stored a where a.message_id = x.id
                                  and a.completed_at >= messages_before) order by x.id limit 10000)
        returning k.*
    ), gone_too as (
        delete from @schema@.message_default k where k.id in (
            select x.id from @schema@.message_default x where x.id < v_before
               and not exists (select from @schema@.queue q where q.id = x.id)
               and not exists (select from @schema@.dead d where d.id = x.id)
               and (x.shard is null or x.id not in (
                   select w.id from @schema@.log_waiting w where w.leaf = '@schema@.message_default'::regclass
                   union all
                   select t.id from @schema@.log_taken t where t.leaf = '@schema@.message_default'::regclass))
               and not exists (select from @schema@.attempt_stored a where a.message_id = x.id
                                  and a.completed_at >= messages_before) order by x.id limit 10000)
        returning k.*
    ), stub as (
        insert into @schema@.archived
        select m.id, m.created_at, m.tenant_id, m.seq, m.namespace, m.topic, m.key, m.dedupe_key, m.subject, m.correlation_id
          from (select * from gone union all select * from gone_too) m
         where attempts_before < messages_before
            on conflict (id) do nothing
    )
    select (select count(*) from gone) + (select count(*) from gone_too) into v_messages;
    delete from @schema@.archived k where k.id in (
        select x.id from @schema@.archived x where x.id < @schema@.uuid_at(attempts_before)
           and not exists (select from @schema@.attempt_stored a where a.message_id = x.id) order by x.id limit 10000);
    get diagnostics v_stubs = row_count;
    return v_messages + v_stubs;
end
$$;

-- Whether attempt_kept or attempt_default cannot be emptied, or is empty already.
create function @schema@.attempts_needed(which text, cutoff timestamptz) returns boolean
    language plpgsql security definer
    set search_path = pg_catalog, pg_temp
as $$
begin
    if which = 'attempt_kept' then
        return exists (select from @schema@.attempt_kept a where a.completed_at >= cutoff
                or exists (select from @schema@.queue q where q.id = a.message_id)
                or exists (select from @schema@.dead d where d.id = a.message_id))
            or not exists (select from @schema@.attempt_kept);
    end if;
    return exists (select from @schema@.attempt_default a where a.completed_at >= cutoff
            or exists (select from @schema@.queue q where q.id = a.message_id)
            or exists (select from @schema@.dead d where d.id = a.message_id))
        or not exists (select from @schema@.attempt_default);
end
$$;

-- The steps of purge. Each does at most one thing and reports it; a lock that it cannot get is an error.

-- How wide a period is: as configured, but never so narrow that there would be more than some three dozen of them. Every
-- statement that reaches for a message by its id takes a lock on each partition, and their number must not grow with the
-- retention time. With unlimited retention there is a new one every few weeks.
create function @schema@.period_width(s @schema@.namespace) returns interval
    language sql stable
as $$
    -- In tens of seconds: the messages of a row of attempt are of one period.
    select greatest(ceil(extract(epoch from s.partition_width) / 10) * interval '10 s', ceil(extract(epoch from least(greatest(s.retention, s.attempt_retention),
        interval '10 years')) / 32 / 3600) * interval '1 hour')
$$;

-- The present period and two more. Those that a clock made which was ahead for a while are no reason to make none: a period
-- ends where the next one begins.
create function @schema@.purge_create(v_now timestamptz, width interval, out action text, out detail text)
    language plpgsql
as $$
declare
    v_seconds constant double precision := extract(epoch from width);
    v_start timestamptz := to_timestamp(floor(extract(epoch from v_now) / v_seconds) * v_seconds);
    v_finish timestamptz;
begin
    action := 'create';
    v_start := coalesce((select max(x.finish) from @schema@.period x where x.start <= v_now and x.finish > v_start), v_start);
    while v_start < v_now + 2 * width loop
        select x.finish into v_finish from @schema@.period x where x.start <= v_start and x.finish > v_start limit 1;
        if not found then
            v_finish := least(v_start + width, (select min(x.start) from @schema@.period x where x.start > v_start));
            if @schema@.default_in_the_way(@schema@.uuid_at(v_start), @schema@.uuid_at(v_finish)) then
                action := coalesce(@schema@.clear_log_of_default(), action);
                if action <> 'create' then
                    detail := 'message_default';
                    return;
                end if;
                perform @schema@.renew_defaults();
            end if;
            perform @schema@.make_period(v_start, v_finish);
            detail := to_char(v_start at time zone 'UTC', 'YYYY-MM-DD HH24:MI');
            return;
        end if;
        v_start := v_finish;
    end loop;
end
$$;

-- After the clock was ahead for a while: no lease is longer than a day, and nothing began in the future. What says so would
-- be out of reach until that day comes.
create function @schema@.repair_times(v_now timestamptz) returns bigint
    language plpgsql security definer
    set search_path = pg_catalog, pg_temp
as $$
declare
    v_count bigint;
begin
    update @schema@.queue q set until = v_now, since = least(q.since, v_now)
     where q.ctid = any (array(select x.ctid from @schema@.queue x where x.until > v_now + interval '25 h' limit 10000
                                  for update skip locked));
    get diagnostics v_count = row_count;
    update @schema@.log_window k set until = least(k.until, v_now), taken_at = least(k.taken_at, v_now), swept = least(k.swept, v_now)
     where k.until > v_now + interval '25 h' or k.swept > v_now + interval '1 h';
    update @schema@.queue q set due = v_now + (q.due - w.began), since = case when q.since is not null then v_now end
      from (select x.ctid as tid, coalesce(x.since, m.created_at) as began
              from @schema@.queue x
             cross join lateral (select s.created_at from @schema@.stored s where s.id = x.id offset 0) m
             where x.until is null and x.due >= coalesce(x.since, m.created_at)
               and (x.since > v_now + interval '1 h'
                 or (x.since is null and x.id > @schema@.uuid_at(v_now + interval '1 h')))
             limit 10000
               for update of x skip locked) w
     where q.ctid = w.tid and q.due > v_now;
    return v_count;
end
$$;

-- Tries a statement that needs a lock a few times, so that the transaction's earlier work need not be repeated.
create function @schema@.patiently(command text) returns void
    language plpgsql
as $$
begin
    for v_try in 1..5 loop
        begin
            execute command;
            return;
        exception when lock_not_available or deadlock_detected then
            perform pg_sleep(0.02 * v_try);
        end;
    end loop;
    raise lock_not_available;
end
$$;

-- Rows of a leaf that are still needed are moved before it is locked, some thousand per call. Under the lock, only what
-- an open transaction has added meanwhile remains to be checked.
create function @schema@.purge_empty(messages_before timestamptz, attempts_before timestamptz, out action text, out leaf text,
    out removed bigint)
    language plpgsql
as $$
declare
    p @schema@.period;
    v_low uuid;
    v_high uuid;
    v_stubs constant boolean := attempts_before < messages_before;
begin
    action := 'empty';
    removed := 0;
    select * into p from @schema@.period x where x.message and x.finish < messages_before order by x.start limit 1;
    if found then
        leaf := 'message_' || p.suffix;
        v_low := @schema@.uuid_at(p.start);
        v_high := @schema@.uuid_at(p.finish);
        action := coalesce(@schema@.clear_log(to_regclass(format('%I.%I', @schema_text@, leaf))), action);
        if action <> 'empty' then
            return;
        elsif @schema@.keep_messages(v_low, v_high, messages_before, v_stubs, 20000) > 0 then
            action := 'keep';
            return;
        end if;
        removed := @schema@.count_messages(v_low, v_high);
        perform @schema@.patiently(format('lock table %I.%I in share mode', @schema_text@, leaf));
        perform @schema@.clear_log_finally(to_regclass(format('%I.%I', @schema_text@, leaf)));
        perform @schema@.keep_messages(v_low, v_high, messages_before, v_stubs, null);
        perform @schema@.patiently(format('truncate %I.%I', @schema_text@, leaf));
        update @schema@.period x set message = false where x.start = p.start;
        return;
    end if;
    select * into p from @schema@.period x where x.attempt and x.finish < attempts_before order by x.start limit 1;
    if found then
        leaf := 'attempt_' || p.suffix;
        perform @schema@.patiently(format('lock table %I.%I in share mode', @schema_text@, leaf));
        perform @schema@.keep_attempts(@schema@.uuid_at(p.start), @schema@.uuid_at(p.finish), attempts_before);
        perform @schema@.patiently(format('truncate %I.%I', @schema_text@, leaf));
        update @schema@.period x set attempt = false where x.start = p.start;
    end if;
end
$$;

-- Drops emptied leaves. Rows added to one since (an attempt of a message that is still undelivered) are kept like the
-- rest.
create function @schema@.purge_drop(messages_before timestamptz, attempts_before timestamptz) returns text
    language plpgsql
as $$
declare
    v_leaf record;
begin
    select c.relname as name, c.relname = 'message_' || x.suffix as message, @schema@.uuid_at(x.start) as low,
           @schema@.uuid_at(x.finish) as high
      into v_leaf
      from @schema@.period x, pg_class c
     where c.relnamespace = '@schema@'::regnamespace and c.relkind = 'r'
       and ((not x.message and c.relname = 'message_' || x.suffix)
         or (not x.attempt and c.relname = 'attempt_' || x.suffix))
     order by c.relname limit 1;
    if not found then
        delete from @schema@.period x where not x.message and not x.attempt;
        return null;
    end if;
    if v_leaf.message then
        lock table only @schema@.message in access exclusive mode;
        if @schema@.count_messages(v_leaf.low, v_leaf.high) > 0 then
            perform @schema@.clear_log_finally(to_regclass(format('%I.%I', @schema_text@, v_leaf.name)));
        end if;
        perform @schema@.keep_messages(v_leaf.low, v_leaf.high, messages_before, attempts_before < messages_before, null);
    else
        lock table only @schema@.attempt in access exclusive mode;
        perform @schema@.keep_attempts(v_leaf.low, v_leaf.high, attempts_before);
    end if;
    execute format('drop table %I.%I', @schema_text@, v_leaf.name);
    return v_leaf.name;
end
$$;

create function @schema@.purge_rest(messages_before timestamptz, attempts_before timestamptz) returns bigint
    language plpgsql
as $$
declare
    v_name text;
begin
    foreach v_name in array '{attempt_kept,attempt_default}'::text[] loop
        if not @schema@.attempts_needed(v_name, attempts_before) then
            perform @schema@.patiently(format('lock table %I.%I in share mode', @schema_text@, v_name));
            if not @schema@.attempts_needed(v_name, attempts_before) then
                perform @schema@.patiently(format('truncate %I.%I', @schema_text@, v_name));
            end if;
        end if;
    end loop;
    perform @schema@.drop_aside(attempts_before);
    return @schema@.sweep_leftovers(messages_before, attempts_before);
end
$$;

-- One step of retention. Call it until more is false; any relay, cron job or operator may, even concurrently.
create function @schema@.purge() returns table (action text, detail text, removed bigint, more boolean)
    language plpgsql security definer
    set search_path = pg_catalog, pg_temp
    set lock_timeout = '50ms'
as $$
declare
    v_now constant timestamptz := clock_timestamp();
    v_tenant constant text := coalesce(current_setting('app.current_tenant_id', true), '');
    s @schema@.namespace;
    v_messages timestamptz;
    v_attempts timestamptz;
begin
    perform @schema@.check_isolation();
    perform set_config('app.current_tenant_id', '', true); -- it is for all tenants
    perform from @schema@.maintenance m where m.name = 'purge' for update skip locked;
    if not found then
        perform set_config('app.current_tenant_id', v_tenant, true);
        return query select 'busy', 'another purge is at work', 0::bigint, false;
        return;
    end if;
    select * into strict s from @schema@.namespace n where n.name = '*';
    v_messages := v_now - s.retention;
    -- A message without its attempts would not know how it ended.
    v_attempts := v_now - greatest(s.retention, s.attempt_retention);

    for v_try in 1..5 loop
        begin
            removed := 0;
            more := true;
            action := 'create';
            select c.action, c.detail into action, detail from @schema@.purge_create(v_now, @schema@.period_width(s)) c;
            if detail is null then
                action := 'empty';
                select e.action, e.leaf, e.removed into action, detail, removed
                  from @schema@.purge_empty(v_messages, v_attempts) e;
            end if;
            if detail is null then
                action := 'drop';
                detail := @schema@.purge_drop(v_messages, v_attempts);
            end if;
            if detail is null then
                action := 'done';
                perform @schema@.repair_times(v_now);
                removed := @schema@.purge_rest(v_messages, v_attempts);
                detail := case when removed = 0 then 'nothing is left to do' else 'left-overs' end;
                more := removed >= 10000;
            end if;
            if action = 'wait' then
                detail := format('messages of %s are being delivered; try again later', detail);
                more := false;
            end if;
            perform set_config('app.current_tenant_id', v_tenant, true);
            return next;
            return;
        exception when lock_not_available or deadlock_detected or check_violation then -- a row came into a default partition
            exit when action in ('empty', 'done'); -- these were patient enough
            perform pg_sleep(0.02 * v_try);
        end;
    end loop;
    perform set_config('app.current_tenant_id', v_tenant, true);
    return query select 'wait', 'producers or relays hold the tables; try again later', 0::bigint, false;
end
$$;

-- Before messages are erased, by ids or of a tenant: until the end of the transaction nobody takes windows of the shards of the log
-- that have any of them, and those that are being delivered are waited for, five seconds at most. ordered: messages of keys go to the
-- queue, with all before them. They leave an empty row there; in the log they would leave a gap in their key's numbers.
create function @schema@.hold_log(ids uuid[], tenant uuid, ordered boolean) returns void
    language plpgsql security definer
    set search_path = pg_catalog, pg_temp
as $$
declare
    v_shards smallint[];
    v_more boolean;
begin
    v_shards := array(
        select distinct x.shard
          from (select w.shard, w.id, w.tenant_id from @schema@.log_waiting w
                union all
                select t.shard, t.id, t.tenant_id from @schema@.log_taken t) x
         where x.id = any (ids) or x.tenant_id = tenant);
    if cardinality(v_shards) = 0 then
        return;
    end if;
    perform from @schema@.log_shard s where s.shard = any (v_shards) order by s.shard for update;
    for v_try in 1..250 loop
        loop
            v_more := ordered and exists (select from @schema@.log_waiting w where w.id = any (ids) and w.shard >= 0);
            exit when not v_more or @schema@.admit(20000) = 0;
        end loop;
        if not v_more and not exists (select from @schema@.log_taken t where t.id = any (ids) or t.tenant_id = tenant) then
            return;
        end if;
        perform pg_sleep(0.02);
    end loop;
    raise exception 'some of the messages are being delivered' using errcode = '55P03',
        hint = 'Nothing was erased. Try again.';
end
$$;

-- Erases a tenant: messages, attempts, dead letters, keys. Runs as the owner, which row security restricts to this
-- tenant's rows, and which may pass the append-only guard. Only this act is kept, without content.
--     create trigger ... after delete on tenants ... perform outbox.erase_tenant(old.id)
--
-- Keys come first: there it waits for the tenant's producers, and the following statements see what they commit.
-- Anything else that it waits for (a settle, a retry) may add rows to a table that is already done; so it repeats until
-- it finds nothing, at most ten times.
create function @schema@.erase_tenant(tenant uuid, actor text default null, reason text default null) returns bigint
    language plpgsql security definer
    set search_path = pg_catalog, pg_temp
as $$
declare
    v_before constant text := current_setting('app.current_tenant_id', true);
    v_messages bigint := 0;
    v_dead bigint := 0;
    v_attempts bigint;
    v_count bigint;
    v_more boolean;
begin
    perform @schema@.check_isolation();
    if tenant is null then
        raise exception '"tenant" is missing' using errcode = 'OB001', hint = 'Give the tenant''s uuid.';
    elsif @schema@.current_tenant() <> tenant then
        raise exception 'the session''s tenant is another one' using errcode = 'OB002',
            hint = 'A session with app.current_tenant_id erases that tenant only.';
    end if;
    perform set_config('app.current_tenant_id', tenant::text, true);
    perform @schema@.hold_log(null, tenant, false);
    for v_round in 1..10 loop -- who goes on sending all the while is not waited for
        delete from @schema@.stream where tenant_id = tenant;
        v_more := found;
        delete from @schema@.dead where tenant_id = tenant;
        get diagnostics v_count = row_count;
        v_dead := v_dead + v_count;
        v_more := v_more or found;
        delete from @schema@.queue where tenant_id = tenant;
        v_more := v_more or found;
        delete from @schema@.message where tenant_id = tenant;
        get diagnostics v_count = row_count;
        v_messages := v_messages + v_count;
        v_more := v_more or found;
        delete from @schema@.message_kept where tenant_id = tenant;
        v_more := v_more or found;
        delete from @schema@.dedupe where tenant_id = tenant;
        exit when not (v_more or found);
    end loop;
    delete from @schema@.attempt where tenant_id = tenant;
    get diagnostics v_attempts = row_count;
    delete from @schema@.attempt_kept where tenant_id = tenant;
    delete from @schema@.archived where tenant_id = tenant;
    delete from @schema@.hook_failure where tenant_id = tenant;
    delete from @schema@.act where tenant_id = tenant;
    delete from @schema@.token where tenant_id = tenant;
    perform set_config('app.current_tenant_id', coalesce(v_before, ''), true);
    perform @schema@.record(actor, 'erase_tenant', reason, null, null, jsonb_build_object('tenant', tenant,
        'messages', v_messages, 'attempts', v_attempts, 'dead_letters', v_dead));
    return v_messages;
end
$$;

-- Erases the messages about one domain object (V14). Their attempts are kept: worker, time and outcome, no content. A
-- message of a key that is still in the queue leaves an empty row there, so that the key's order stays; claim removes
-- it when its turn comes.
create function @schema@.erase_subject(namespace text, subject text, tenant uuid default null, actor text default null,
    reason text default null) returns bigint
    language plpgsql security definer
    set search_path = pg_catalog, pg_temp
as $$
#variable_conflict use_column
declare
    v_tenant constant uuid := @schema@.tenant_for(tenant);
    v_ids uuid[];
begin
    perform @schema@.check_isolation();
    v_ids := array(
        select m.id from @schema@.stored m where m.subject = erase_subject.subject
           and m.namespace = erase_subject.namespace and (v_tenant is null or m.tenant_id = v_tenant)
        union
        select d.id from @schema@.dead d where d.subject = erase_subject.subject
           and d.namespace = erase_subject.namespace and (v_tenant is null or d.tenant_id = v_tenant));
    perform @schema@.hold_log(v_ids, null, true);
    -- An open retry puts into the queue what it takes from the dead letters, an open settle the other way round. Each is waited
    -- for, and then there is another look.
    for v_round in 1..10 loop
        delete from @schema@.dead d where d.id = any (v_ids);
        delete from @schema@.queue q where q.id = any (v_ids) and q.sid is null;
        update @schema@.queue q set expires_at = '-infinity', held = false, due = least(q.due, clock_timestamp())
         where q.id = any (v_ids);
        exit when not exists (select from @schema@.dead d where d.id = any (v_ids));
    end loop;
    perform @schema@.wake_successors(array_agg(q.sid), array_agg(q.seq - 1))
       from @schema@.queue q
      where q.id = any (v_ids) and q.parked
        and not exists (select from @schema@.queue p where p.sid = q.sid and p.seq = q.seq - 1);
    -- An attempt that shares a row is found by its message: now it gets a row of its own.
    insert into @schema@.attempt (message_id, attempt_no, outcome, spent, latency, claimed_at, completed_at, tenant_id, worker, code, error, reference,
        xid)
    select a.*, null::xid8 from @schema@.attempt_shared a where a.message_id = any (v_ids);
    delete from @schema@.message m where m.id = any (v_ids);
    delete from @schema@.message_kept m where m.id = any (v_ids);
    delete from @schema@.archived m where m.id = any (v_ids);
    delete from @schema@.hook_failure f where (f.event ->> 'id')::uuid = any (v_ids);
    perform @schema@.record(actor, 'erase_subject', reason, null, v_tenant,
        jsonb_build_object('namespace', erase_subject.namespace, 'messages', cardinality(v_ids)));
    return cardinality(v_ids);
end
$$;
