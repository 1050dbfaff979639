-- doorbell_probe: whether all transactions below the fence have ended. $1 the fence.
select (pg_catalog.pg_snapshot_xmin(pg_catalog.pg_current_snapshot()) operator(pg_catalog.>=) $1::pg_catalog.xid8)::pg_catalog.text
