-- setting_row: the row for a namespace's own settings. ?1 namespace.
INSERT INTO outbox_namespace (name)
SELECT ?1 WHERE NOT EXISTS (SELECT 1 FROM outbox_namespace WHERE name = ?1)
