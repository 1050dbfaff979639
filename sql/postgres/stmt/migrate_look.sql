-- migrate_look: what migrate must know before it touches anything. $1 schema, $2 names of the roles, the first four
-- being owner, api, hooks and nobody.
-- Columns: migrated (the table of migrations is there), foreign (the schema holds things, but no outbox), may_create (a
-- schema can be made, or things in the one there is), may_roles (the roles are there, or can be made), may_join (is a
-- member of the first four, or can become one), database, user.
select pg_catalog.to_regclass('@schema@.migration') is not null,
       pg_catalog.to_regclass('@schema@.migration') is null
           and exists (select from pg_catalog.pg_class c join pg_catalog.pg_namespace n on n.oid operator(pg_catalog.=) c.relnamespace
                        where n.nspname operator(pg_catalog.=) $1::pg_catalog.text),
       case when exists (select from pg_catalog.pg_namespace where nspname operator(pg_catalog.=) $1::pg_catalog.text)
            then pg_catalog.has_schema_privilege($1::pg_catalog.text, 'create')
            else pg_catalog.has_database_privilege(pg_catalog.current_database(), 'create') end,
       me.rolsuper or me.rolcreaterole
           or not exists (select from pg_catalog.unnest($2::pg_catalog.text[]) r(name)
                          where not exists (select from pg_catalog.pg_roles p where p.rolname operator(pg_catalog.=) r.name)),
       me.rolsuper
           -- Whoever may create roles may join any until 15, and from 16 on those he made himself.
           or (me.rolcreaterole and pg_catalog.current_setting('server_version_num')::pg_catalog.int4 operator(pg_catalog.<) 160000)
           or not exists (select from pg_catalog.pg_roles p where p.rolname operator(pg_catalog.=) any (($2::pg_catalog.text[])[1:4])
                             and not pg_catalog.pg_has_role(p.oid, 'member')),
       pg_catalog.current_database()::pg_catalog.text, current_user::pg_catalog.text
from pg_catalog.pg_roles me where me.rolname operator(pg_catalog.=) current_user
