-- scratch_drop: what removes a scratch schema and its roles. $1 its name. Column: a statement.
select pg_catalog.format('drop schema if exists %I cascade', $1::pg_catalog.text)
union all
select pg_catalog.format('drop role if exists %I', $1::pg_catalog.text operator(pg_catalog.||) '_' operator(pg_catalog.||) s.suffix)
  from pg_catalog.unnest('{producer,relay,operator,auditor,tenant,hooks,nobody,api,owner}'::pg_catalog.text[]) s(suffix)
