-- limit_attempts: what a message may spend, as a route or sink says. ?1 n, ?2 how many.
UPDATE outbox_queue SET max_attempts = ?2, by_sink = 1 WHERE n = ?1
