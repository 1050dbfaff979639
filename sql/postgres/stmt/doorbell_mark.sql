-- doorbell_mark: the fence. A number of our own, taken after the unlock: every producer that asked before it has a lower one.
-- (pg_snapshot_xmax will not do: it is one above the latest number that has *ended*, and running ones lie above it.)
select pg_catalog.pg_current_xact_id()::pg_catalog.text
