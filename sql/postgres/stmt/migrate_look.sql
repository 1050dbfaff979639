-- migrate_look: what migrate must know before it touches anything. $1 schema, $2 names of the roles.
-- Columns: migrated (the table of migrations is there), foreign (the schema holds things, but no outbox),
-- may_create (a schema can be made, or things in the one there is), missing (roles that are not there),
-- may_create_roles, database, user.
select to_regclass('@schema@.migration') is not null,
       to_regclass('@schema@.migration') is null
           and exists (select from pg_class c join pg_namespace n on n.oid = c.relnamespace where n.nspname = $1::text),
       case when exists (select from pg_namespace where nspname = $1::text)
            then has_schema_privilege($1::text, 'create')
            else has_database_privilege(current_database(), 'create') end,
       (select count(*)::int from unnest($2::text[]) r(name) where not exists (select from pg_roles where rolname = r.name)),
       (select rolcreaterole or rolsuper from pg_roles where rolname = current_user),
       exists (select from pg_namespace where nspname = $1::text),
       current_database()::text, current_user::text
