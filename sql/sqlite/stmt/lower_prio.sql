-- lower_prio: the next priority below ?2 that lane ?1 has ready messages of; null when there is none.
SELECT max(prio) FROM outbox_queue WHERE state = 0 AND lane = ?1 AND prio < ?2
