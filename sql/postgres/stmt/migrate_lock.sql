-- migrate_lock: one migrate at a time per schema. Held by the session, so that it spans the transactions of a run and
-- goes with the connection. $1 schema.
select pg_advisory_lock(hashtextextended('outbox migrate ' || $1::text, 0))
