-- tail_begin: where to begin. ?1 a time: what happened at or after it is told; null: what happens from now on. Backwards from the newest,
-- so it reads what will be told. Columns: the last message, attempt's end, dead letter's time and act that are not told.
SELECT coalesce((SELECT n FROM outbox_message WHERE ?1 IS NULL OR created_at < ?1 ORDER BY n DESC LIMIT 1), 0),
       coalesce((SELECT completed_at FROM outbox_attempt WHERE ?1 IS NULL OR completed_at < ?1 ORDER BY completed_at DESC LIMIT 1), 0),
       coalesce((SELECT died_at FROM outbox_dead WHERE ?1 IS NULL OR died_at < ?1 ORDER BY died_at DESC LIMIT 1), 0),
       coalesce((SELECT n FROM outbox_act WHERE ?1 IS NULL OR at < ?1 ORDER BY n DESC LIMIT 1), 0)
