-- failed_again: it was refused once more. ?1 n, ?2 now, ?3 what the trigger said.
UPDATE outbox_hook_failure SET tries = tries + 1, failed_at = ?2, failure = ?3 WHERE n = ?1
