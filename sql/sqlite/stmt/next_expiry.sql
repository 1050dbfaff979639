-- next_expiry: when the next lease ends, after ?1; null for none.
SELECT min(until) FROM outbox_queue WHERE state = 1 AND until > ?1
