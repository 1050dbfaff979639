-- migrate_running: the transactions that run now, by their virtual numbers, which everybody may see.
-- Columns: the numbers, joined by commas.
select coalesce(pg_catalog.string_agg(l.virtualxid, ','), '')
  from pg_catalog.pg_locks l
 where l.locktype operator(pg_catalog.=) 'virtualxid' and l.pid operator(pg_catalog.<>) pg_catalog.pg_backend_pid()
