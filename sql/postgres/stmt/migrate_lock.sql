-- migrate_lock: one migrate at a time per schema. Held by the session, so that it spans the transactions of a run and
-- goes with the connection. $1 schema.
select pg_catalog.pg_advisory_lock(pg_catalog.hashtextextended('outbox migrate ' operator(pg_catalog.||) $1::pg_catalog.text, 0))
