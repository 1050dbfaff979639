-- control: what relays obey, in one statement: pauses, settings changed at run time, and the lanes there are.
-- Columns: kind (0 pause, 1 tuning, 2 lane), then namespace, topic, sink; or name, value, null; or namespace, topic,
-- null; of pauses and tunings also actor, reason, at.
SELECT 0, nullif(namespace, ''), nullif(topic, ''), nullif(sink, ''), actor, reason, at FROM outbox_pause
UNION ALL
SELECT 1, name, value, NULL, actor, reason, at FROM outbox_tuning
UNION ALL
SELECT 2, namespace, topic, NULL, NULL, NULL, NULL FROM outbox_lane
