-- repair_due: what began to wait by a clock that was ahead waits from now on. ?1 now.
UPDATE outbox_queue SET due = ?1 + due - updated_at, updated_at = ?1
 WHERE state IN (0, 2) AND updated_at > ?1 + 3600000000 AND due >= updated_at
