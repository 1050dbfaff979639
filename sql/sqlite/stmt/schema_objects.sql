-- schema_objects: what is in the file. Columns: how many tables there are, whether outbox_migration is one, and the
-- first object whose name an outbox would need.
SELECT count(*) FILTER (WHERE type = 'table' AND name NOT LIKE 'sqlite#_%' ESCAPE '#'),
       count(*) FILTER (WHERE type = 'table' AND name = 'outbox_migration'),
       min(name) FILTER (WHERE lower(name) = 'outbox' OR lower(name) LIKE 'outbox#_%' ESCAPE '#')
  FROM sqlite_schema
