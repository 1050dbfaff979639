-- failed_hooks: events that triggers refused, oldest first. ?1 number to begin after, ?2 at most so many. Column: n.
SELECT n FROM outbox_hook_failure WHERE n > ?1 ORDER BY n LIMIT ?2
