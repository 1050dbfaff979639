-- wal: how much WAL this server has written in its life. Column: bytes.
select pg_catalog.pg_wal_lsn_diff(pg_catalog.pg_current_wal_insert_lsn(), '0/0')::pg_catalog.int8
