-- next_due: when the next message of a lane and priority is due, after ?3; null for none. ?1 lane, ?2 prio.
SELECT min(due) FROM outbox_queue WHERE state = 0 AND lane = ?1 AND prio = ?2 AND due > ?3
