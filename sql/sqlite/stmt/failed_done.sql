-- failed_done: it was taken. ?1 n.
DELETE FROM outbox_hook_failure WHERE n = ?1
