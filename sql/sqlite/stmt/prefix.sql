-- prefix: the ids of messages in a range, at most three. ?1 from, ?2 to.
SELECT id FROM outbox_message WHERE id BETWEEN ?1 AND ?2 AND lane IS NOT NULL ORDER BY id LIMIT 3
