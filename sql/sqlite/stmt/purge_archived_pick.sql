-- purge_archived_pick: archived messages whose attempts are old enough too. ?1 created before, ?2 at most so many.
SELECT n FROM outbox_archived WHERE created_at < ?1 ORDER BY n LIMIT ?2
