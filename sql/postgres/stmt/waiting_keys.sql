-- waiting_keys: keys that wait behind their first message, the fullest first. $1 how many keys at most.
-- Columns: namespace, topic, key, tenant, id and status of the first message, how many wait, since when the oldest of those, why.
select k.namespace, k.topic, k.key, k.tenant_id::pg_catalog.text, k.head::pg_catalog.text, k.head_status, k.waiting, k.since, k.why
  from @schema@.waiting_keys(max_keys => $1::pg_catalog.int4) k
