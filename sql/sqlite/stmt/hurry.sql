-- hurry: a message that waits for its next attempt is due now. ?1 n, ?2 now.
UPDATE outbox_queue SET due = ?2, updated_at = ?2 WHERE n = ?1
