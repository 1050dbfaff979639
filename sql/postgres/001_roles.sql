-- Roles and the schema.
--
-- Roles belong to the whole cluster, so they carry the schema's name: an outbox in schema "billing" gets billing_owner,
-- billing_producer and so on, and two outboxes never share rights.
--
--   owner     owns the tables; nobody logs in as it; held by row security like everybody (FORCE)
--   api       owns the functions people call; nobody logs in as it; the only role that may write the tables
--   hooks     calls outcome hooks; nobody logs in as it; has no rights of its own at all
--   nobody    as whom deferred triggers of others fire; nobody logs in as it; has no rights, not even on hooks
--   producer  may enqueue, nothing else
--   relay     may claim and settle
--   operator  may read everything, retry, discard, pause, purge, configure
--   auditor   may read everything but the sequence table
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

-- The migrating role hands its objects over to these four, which it may do only as a member. A superuser needs no
-- membership and gets none; who is a member already may not be allowed to grant it again. From PostgreSQL 16 on, who made
-- a role is a member, but one that cannot become it.
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
