-- settings: the settings of namespaces: all of '*', which has the defaults, and those that a namespace has of its own.
-- Columns: namespace, name, value; an interval has its microseconds in the fourth column instead, -1 for forever.
select n.name, s.name, s.value,
       case when s.span operator(pg_catalog.>=) '4000 years'::pg_catalog.interval then -1
            else (extract(epoch from s.span) operator(pg_catalog.*) 1000000)::pg_catalog.int8 end
from @schema@.namespace n
cross join lateral (values
    (1, 'max_attempts', n.max_attempts::pg_catalog.text, null::pg_catalog.interval),
    (2, 'retry_base', null, n.retry_base),
    (3, 'retry_cap', null, n.retry_cap),
    (4, 'on_dead', n.on_dead, null),
    (5, 'order_scope', n.order_scope, null),
    (6, 'dedupe_scope', n.dedupe_scope, null),
    (7, 'tenant_prefix', case when n.tenant_prefix then 'on' when not n.tenant_prefix then 'off' end, null),
    (8, 'max_payload', n.max_payload::pg_catalog.text, null),
    (9, 'lane', n.lane, null),
    (10, 'doorbell', case when n.doorbell then 'on' when not n.doorbell then 'off' end, null),
    (11, 'retention', null, n.retention),
    (12, 'attempt_retention', null, n.attempt_retention),
    (13, 'partition_width', null, n.partition_width)
) s(place, name, value, span)
where n.name operator(pg_catalog.=) '*' or s.value is not null or s.span is not null
order by n.name operator(pg_catalog.<>) '*', n.name, s.place
