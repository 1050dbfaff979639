-- redelivered: whether a run has redelivered a message, or made it. ?1 id, ?2 run.
SELECT EXISTS (SELECT 1 FROM outbox_act t WHERE t.message_id = ?1 AND t.action = 'redeliver' AND json_extract(t.detail, '$.run') = ?2)
    OR EXISTS (SELECT 1 FROM outbox_message m JOIN outbox_act t ON t.message_id = json_extract(m.headers, '$."x-outbox-origin"')
                WHERE m.id = ?1 AND t.action = 'redeliver' AND json_extract(t.detail, '$.run') = ?2 AND json_extract(t.detail, '$.as') = ?1)
