-- purge_window: looks at the next messages by number. ?1 number to begin after, ?2 created before, ?3 how many, ?4 now.
-- Columns: the last number looked at, null at the end; how many of them are that old, or made by a clock that was ahead:
-- behind those there may be old ones.
SELECT max(n), coalesce(sum(created_at < ?2 OR created_at > ?4), 0)
  FROM (SELECT n, created_at FROM outbox_message WHERE n > ?1 ORDER BY n LIMIT ?3)
