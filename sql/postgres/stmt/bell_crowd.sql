-- bell_crowd: whether anybody stands in line for the lock that a commit with a NOTIFY holds over its flush, one for the
-- whole server: an "object" of no database, of the class pg_database (1262), without a number.
select exists (select from pg_locks l where l.locktype = 'object' and l.database = 0 and l.classid = 1262 and l.objid = 0
    and not l.granted)::text
