-- control: what relays obey, in one statement: pauses, settings changed at run time, and the lanes there are.
-- Columns: kind (0 pause, 1 tuning, 2 lane), then namespace, topic, sink; or name, value, null; or namespace, topic,
-- null.
SELECT 0, nullif(namespace, ''), nullif(topic, ''), nullif(sink, '') FROM outbox_pause
UNION ALL
SELECT 1, name, value, NULL FROM outbox_tuning
UNION ALL
SELECT 2, namespace, topic, NULL FROM outbox_lane
