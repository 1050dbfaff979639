-- enqueue_many: many messages in one round trip, all or nothing. The arrays have one length; the objects that the
-- function wants are built here, so that no value of a message is ever pasted into JSON text.
-- (unnest of several arrays is PostgreSQL's own by its syntax, and cannot say so.)
-- $1 topics, $2 payloads, $3 bodies (not null: bytes instead of JSON), $4 content types, $5 keys, $6 dedupe keys,
-- $7 tenants, $8 namespaces, $9 subjects, $10 recipients, $11 headers, $12 priorities, $13 deliver after,
-- $14 expires at, $15 max attempts, $16 correlation ids, $17 encodings of the bodies.
-- Columns: ord (from 1), id, created, seq. Locks: as enqueue, in sorted order.
select r.ord, r.id, r.created, r.seq
from @schema@.enqueue_many((
    select pg_catalog.jsonb_agg(
               pg_catalog.jsonb_strip_nulls(pg_catalog.jsonb_build_object(
                   'topic', m.topic, 'key', m.key, 'dedupe_key', m.dedupe_key, 'tenant_id', m.tenant_id,
                   'namespace', m.namespace, 'subject', m.subject, 'recipient', m.recipient, 'priority', m.priority,
                   'deliver_after', m.deliver_after, 'expires_at', m.expires_at, 'max_attempts', m.max_attempts,
                   'correlation_id', m.correlation_id))
               operator(pg_catalog.||) case when m.headers is null then '{}'
                   else pg_catalog.jsonb_build_object('headers', m.headers) end
               operator(pg_catalog.||) case when m.body is null then pg_catalog.jsonb_build_object('payload', m.payload)
                   else pg_catalog.jsonb_build_object('payload_base64', pg_catalog.encode(m.body, 'base64'),
                       'content_type', m.content_type, 'encoding', m.encoding) end
               order by m.ord)
    from unnest($1::pg_catalog.text[], $2::pg_catalog.jsonb[], $3::pg_catalog.bytea[], $4::pg_catalog.text[],
                $5::pg_catalog.text[], $6::pg_catalog.text[], $7::pg_catalog.text[], $8::pg_catalog.text[],
                $9::pg_catalog.text[], $10::pg_catalog.text[], $11::pg_catalog.jsonb[], $12::pg_catalog.int4[],
                $13::pg_catalog.timestamptz[], $14::pg_catalog.timestamptz[], $15::pg_catalog.int4[],
                $16::pg_catalog.text[], $17::pg_catalog.text[]) with ordinality
         as m(topic, payload, body, content_type, key, dedupe_key, tenant_id, namespace, subject, recipient, headers,
              priority, deliver_after, expires_at, max_attempts, correlation_id, encoding, ord))) as r
