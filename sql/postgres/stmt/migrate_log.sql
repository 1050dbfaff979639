-- migrate_log: after an upgrade, turns the log on if no transaction of $1 (migrate_running) runs any more: one of them may be in
-- a function as it was before. A row: it is on.
select @schema@.configure('*', 'lane', 'log')
 where not exists (select from pg_catalog.pg_locks l where l.locktype operator(pg_catalog.=) 'virtualxid'
                      and l.virtualxid operator(pg_catalog.=) any (pg_catalog.string_to_array($1::pg_catalog.text, ',')))
