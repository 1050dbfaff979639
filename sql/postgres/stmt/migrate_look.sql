-- migrate_look: what migrate must know before it touches anything. $1 schema, $2 names of the roles, the first four
-- being owner, api, hooks and nobody.
-- Columns: migrated (the table of migrations is there), foreign (the schema holds things, but no outbox), may_create (a
-- schema can be made, or things in the one there is), may_roles (the roles are there, or can be made), may_join (is a
-- member of the first four, or can become one), database, user.
select to_regclass('@schema@.migration') is not null,
       to_regclass('@schema@.migration') is null
           and exists (select from pg_class c join pg_namespace n on n.oid = c.relnamespace where n.nspname = $1::text),
       case when exists (select from pg_namespace where nspname = $1::text)
            then has_schema_privilege($1::text, 'create')
            else has_database_privilege(current_database(), 'create') end,
       me.rolsuper or me.rolcreaterole
           or not exists (select from unnest($2::text[]) r(name)
                          where not exists (select from pg_roles p where p.rolname = r.name)),
       me.rolsuper
           -- Whoever may create roles may join any until 15, and from 16 on those he made himself.
           or (me.rolcreaterole and current_setting('server_version_num')::int < 160000)
           or not exists (select from pg_roles p where p.rolname = any (($2::text[])[1:4])
                             and not pg_has_role(p.oid, 'member')),
       current_database()::text, current_user::text
from pg_roles me where me.rolname = current_user
