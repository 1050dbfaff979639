-- list_begin: how many ids begin alike, up to 10,001. ?1 first, ?2 last. Column: the number.
SELECT count(*) FROM (SELECT 1 FROM outbox_message WHERE id BETWEEN ?1 AND ?2 LIMIT 10001)
