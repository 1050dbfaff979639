-- redelivered: whether a run has redelivered a message. ?1 id, ?2 run.
SELECT count(*) FROM outbox_act t WHERE t.message_id = ?1 AND t.action = 'redeliver' AND json_extract(t.detail, '$.run') = ?2
