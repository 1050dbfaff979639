-- migration_print: the record of all migrations, for those who run the texts themselves; rows follow.
INSERT INTO outbox_migration (version, name, sha256, applied_at)
SELECT column1, column2, column3, CAST((julianday('now') - 2440587.5) * 86400000.0 + 0.5 AS INTEGER) * 1000 FROM (VALUES
