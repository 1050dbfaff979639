-- Roles and the schema.
--
-- Roles belong to the whole cluster, so they carry the schema's name: an outbox in schema "billing" gets billing_owner,
-- billing_producer and so on, and two outboxes never share rights.
--
--   owner     owns the tables; nobody logs in as it; subject to row security too (FORCE)
--   api       owns the functions that users call; nobody logs in as it; the only role that may write the tables
--   hooks     calls outcome hooks; nobody logs in as it; has no rights of its own at all
--   nobody    runs other users' deferred triggers; nobody logs in as it; has no rights, not even on hooks
--   producer  may enqueue, nothing else
--   relay     may claim and settle
--   operator  may read everything, retry, discard, pause, purge, configure
--   auditor   may read everything except the sequence table
--   tenant    may read its own tenant's rows through the views, under app.current_tenant_id
do $$
declare
    suffix text;
    name text;
begin
    foreach suffix in array '{owner,api,hooks,nobody,producer,relay,operator,auditor,tenant}'::text[] loop
        name := @schema_text@ || '_' || suffix;
        if not exists (select from pg_roles where rolname = name) then
            begin
                execute format('create role %I nologin', name);
            exception when duplicate_object or unique_violation then
                null; -- another database of the cluster was migrated at the same moment
            end;
        end if;
    end loop;
end
$$;

-- The migrating role transfers its objects to these four, which only a member may do. A superuser needs no membership
-- and gets none; an existing member may not be allowed to grant it again. From PostgreSQL 16 on, the creator of a role
-- is a member of it, but cannot SET ROLE to it.
do $$
declare
    needed constant text := case when current_setting('server_version_num')::int >= 160000 then 'set' else 'member' end;
begin
    if not pg_has_role(@owner_text@, needed) then
        grant @owner@ to current_user;
    end if;
    if not pg_has_role(@api_text@, needed) then
        grant @api@ to current_user;
    end if;
    if not pg_has_role(@hooks_text@, needed) then
        grant @hooks@ to current_user;
    end if;
    if not pg_has_role(@nobody_text@, needed) then
        grant @nobody@ to current_user;
    end if;
end
$$;

create schema if not exists @schema@;
grant usage, create on schema @schema@ to @owner@, @api@, @hooks@, @nobody@;
grant usage on schema @schema@ to @producer@, @relay@, @operator@, @auditor@, @tenant@;
