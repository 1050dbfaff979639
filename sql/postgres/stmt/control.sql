-- control: what relays obey, in one statement: pauses, settings changed at run time, and the lanes there are.
-- Columns: kind (0 pause, 1 tuning, 2 lane), then namespace, topic, sink; or name, value, null; or namespace, topic,
-- null; of pauses and tunings also actor, reason, at. Counts nothing; lanes come from an index.
select 0::pg_catalog.int4, p.namespace, p.topic, p.sink, p.actor, p.reason, p.at from @schema@.pause p
union all
select 1, t.name, t.value, null, t.actor, t.reason, t.at from @schema@.tuning t
union all
(select 2, l.namespace, l.topic, null, null, null, null from @schema@.lane l group by l.namespace, l.topic)
