-- scratch_left: scratch schemas of benchmarks that were killed: no session has their name. Column: the name.
select x.name
  from (select n.nspname::pg_catalog.text as name from pg_catalog.pg_namespace n
        union
        select pg_catalog.regexp_replace(r.rolname::pg_catalog.text, '_owner$', '') from pg_catalog.pg_roles r) x
 where x.name operator(pg_catalog.~) '^outbox_bench_[0-9a-f]{8}$'
   and not exists (select from pg_catalog.pg_stat_activity a where a.application_name operator(pg_catalog.=) x.name)
