-- next_expiry: when the next lease of a lane ends, after ?2; null for none. ?1 lane.
SELECT min(until) FROM outbox_queue WHERE state = 1 AND lane = ?1 AND until > ?2
