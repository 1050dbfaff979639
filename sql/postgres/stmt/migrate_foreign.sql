-- migrate_foreign: what stands in the way of an outbox that nobody else has rights in: a schema or roles of its names that
-- somebody else made. $1 schema, $2 names of the roles, the first four being owner, api, hooks and nobody, $3 whether the
-- outbox is there already. Columns: problem; the statement that takes it over.
with me as (
    select r.oid, r.rolname as name from pg_catalog.pg_roles r where r.rolname operator(pg_catalog.=) current_user
), ours as (
    select r.* from pg_catalog.pg_roles r where r.rolname operator(pg_catalog.=) any ($2::pg_catalog.text[])
), place as (
    select n.nspname as name, n.nspowner as owner, n.nspacl as acl from pg_catalog.pg_namespace n
     where n.nspname operator(pg_catalog.=) $1::pg_catalog.text
)
select pg_catalog.format('the schema %s belongs to %s, who could put functions into it that run with the rights of the outbox',
           p.name, pg_catalog.pg_get_userbyid(p.owner)),
       pg_catalog.format('alter schema %I owner to %I', p.name, me.name)
  from place p, me
 where p.owner operator(pg_catalog.<>) me.oid
   and not exists (select from ours o where o.oid operator(pg_catalog.=) p.owner
                      and o.rolname operator(pg_catalog.=) ($2::pg_catalog.text[])[1])
union all
select pg_catalog.format('%s may create objects in the schema %s, also functions that run with the rights of the outbox',
           case when a.grantee operator(pg_catalog.=) 0 then 'everybody' else pg_catalog.pg_get_userbyid(a.grantee) end, p.name),
       pg_catalog.format('revoke all on schema %I from %s', p.name, case when a.grantee operator(pg_catalog.=) 0 then 'public'
           else pg_catalog.quote_ident(pg_catalog.pg_get_userbyid(a.grantee)) end)
  from place p, me, pg_catalog.aclexplode(p.acl) a
 where a.privilege_type operator(pg_catalog.=) 'CREATE' and a.grantee operator(pg_catalog.<>) p.owner
   and a.grantee operator(pg_catalog.<>) me.oid and not exists (select from ours o where o.oid operator(pg_catalog.=) a.grantee)
union all
select pg_catalog.format('the role %s is there, and %s; no role of the outbox may', o.rolname,
           pg_catalog.concat_ws(' and ', case when o.rolsuper then 'is a superuser' end, case when o.rolcanlogin then 'can log in' end,
               case when o.rolbypassrls then 'bypasses row security' end, case when o.rolcreaterole or o.rolcreatedb
               or o.rolreplication then 'has rights on the whole server' end)),
       pg_catalog.format('alter role %I nologin nosuperuser nobypassrls nocreaterole nocreatedb noreplication', o.rolname)
  from ours o
 where o.rolsuper or o.rolcanlogin or o.rolbypassrls or o.rolcreaterole or o.rolcreatedb or o.rolreplication
union all
select pg_catalog.format('%s is a member of %s, and would own the outbox with it', m.rolname, o.rolname),
       pg_catalog.format('revoke %I from %I', o.rolname, m.rolname)
  from pg_catalog.pg_auth_members a join ours o on o.oid operator(pg_catalog.=) a.roleid
  join pg_catalog.pg_roles m on m.oid operator(pg_catalog.=) a.member
 where not $3::pg_catalog.bool and o.rolname operator(pg_catalog.=) any (($2::pg_catalog.text[])[1:4])
   and m.rolname operator(pg_catalog.<>) current_user and not m.rolsuper
