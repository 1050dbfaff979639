-- migrations: what was applied. Columns: version, name, sha256, applied_at.
SELECT version, name, sha256, applied_at FROM outbox_migration ORDER BY version
