-- enqueue: one message with a JSON payload, in the transaction that is open, or in one of its own.
-- $1 topic, $2 payload, $3 key, $4 dedupe key, $5 tenant, $6 namespace, $7 subject, $8 recipient, $9 headers,
-- $10 priority, $11 deliver after, $12 expires at, $13 max attempts, $14 correlation id; all but the first two may be
-- null. Columns: id, created, seq (null without a key).
-- Locks: the key's row in stream and the dedupe key, until the transaction ends.
select id, created, seq
from @schema@.enqueue(topic => $1::pg_catalog.text, payload => $2::pg_catalog.jsonb, key => $3::pg_catalog.text,
                      dedupe_key => $4::pg_catalog.text,
                      tenant_id => $5::pg_catalog.uuid, namespace => coalesce($6::pg_catalog.text, 'default'),
                      subject => $7::pg_catalog.text,
                      recipient => $8::pg_catalog.text, headers => $9::pg_catalog.jsonb,
                      priority => coalesce($10::pg_catalog.int4, 4),
                      deliver_after => $11::pg_catalog.timestamptz, expires_at => $12::pg_catalog.timestamptz,
                      max_attempts => $13::pg_catalog.int4,
                      correlation_id => $14::pg_catalog.text)
