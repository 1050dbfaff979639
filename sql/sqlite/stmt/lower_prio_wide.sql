-- lower_prio_wide: the next priority below ?1 that there are ready messages of; null when there is none.
SELECT max(prio) FROM outbox_queue WHERE state = 0 AND prio < ?1
