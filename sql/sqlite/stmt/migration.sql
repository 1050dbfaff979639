-- migration: puts a migration on record. ?1 version, ?2 name, ?3 sha256, ?4 now.
INSERT INTO outbox_migration (version, name, sha256, applied_at) VALUES (?1, ?2, ?3, ?4)
