-- migrate_applied: the migrations that this database has had, in order.
-- Columns: version, name, checksum, applied_at, applied_by.
select version, name, checksum, applied_at, applied_by from @schema@.migration order by version
