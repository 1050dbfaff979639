-- stub: after the newest messages were deleted, keeps the numbers from being given out again. ?1 the highest number
-- that there was, ?2 now. Writes nothing while a higher one is there.
INSERT INTO outbox_message (n, id, created_at, priority, max_attempts, payload)
SELECT ?1 + 1, 'stub-' || (?1 + 1), ?2, 0, 1, ''
 WHERE NOT EXISTS (SELECT 1 FROM outbox_message m WHERE m.n >= ?1)
