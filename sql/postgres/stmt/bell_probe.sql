-- bell_probe: whether all transactions below the fence have ended. $1 the fence.
select (pg_snapshot_xmin(pg_current_snapshot()) >= $1::xid8)::text
