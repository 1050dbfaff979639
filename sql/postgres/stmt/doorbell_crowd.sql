-- doorbell_crowd: whether anybody stands in line for the lock that a commit with a NOTIFY holds over its flush, one for the
-- whole server: an "object" of no database, of the class pg_database (1262), without a number.
select exists (select from pg_catalog.pg_locks l
    where l.locktype operator(pg_catalog.=) 'object' and l.database operator(pg_catalog.=) 0
      and l.classid operator(pg_catalog.=) 1262 and l.objid operator(pg_catalog.=) 0 and not l.granted)::pg_catalog.text
