-- purge_window: looks at the next messages by number. ?1 number to begin after, ?2 created before, ?3 how many.
-- Columns: the last number looked at, null at the end; how many of them are that old.
SELECT max(n), coalesce(sum(created_at < ?2), 0)
  FROM (SELECT n, created_at FROM outbox_message WHERE n > ?1 ORDER BY n LIMIT ?3)
