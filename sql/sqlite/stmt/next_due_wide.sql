-- next_due_wide: when the next message of a priority is due in any lane but the first few, after ?2; null for none. ?1 prio.
SELECT min(due) FROM outbox_queue WHERE state = 0 AND lane > 32 AND prio = ?1 AND due > ?2
