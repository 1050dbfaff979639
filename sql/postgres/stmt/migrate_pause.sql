-- migrate_pause: between two tries of an upgrade, so that whoever waited behind it goes on.
select pg_catalog.pg_sleep(0.5)
