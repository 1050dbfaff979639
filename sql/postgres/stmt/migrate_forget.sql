-- migrate_forget: the migrations of an earlier version, which an upgrade replaces.
delete from @schema@.migration
