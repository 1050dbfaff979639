-- gauges_span: the size of the queue as far as ?1 rows, its first and last number, the bytes of the file, and
-- how many attempts were ever lost; how many messages were written since the log was last admitted.
SELECT (SELECT count(*) FROM (SELECT 1 FROM outbox_queue LIMIT ?1)), (SELECT min(n) FROM outbox_queue),
       (SELECT max(n) FROM outbox_queue), (SELECT page_count * page_size FROM pragma_page_count, pragma_page_size),
       (SELECT total FROM outbox_repair),
       (SELECT (SELECT max(n) FROM outbox_message) - admitted FROM outbox_log)
