-- lower_prio_wide: the next priority below ?1 that lanes other than the first few have ready messages of; null when there is none.
SELECT max(prio) FROM outbox_queue WHERE state = 0 AND lane > 32 AND prio < ?1
