-- enqueue_bytes: like enqueue, with bytes of a content type for a payload.
-- $1 to $14 as in enqueue, $2 being bytes; $15 content type, $16 encoding.
select id, created, seq
from @schema@.enqueue_bytes(topic => $1::pg_catalog.text, payload => $2::pg_catalog.bytea,
                            content_type => $15::pg_catalog.text, key => $3::pg_catalog.text,
                            dedupe_key => $4::pg_catalog.text, tenant_id => $5::pg_catalog.uuid,
                            namespace => coalesce($6::pg_catalog.text, 'default'), subject => $7::pg_catalog.text,
                            recipient => $8::pg_catalog.text,
                            headers => $9::pg_catalog.jsonb, priority => coalesce($10::pg_catalog.int4, 4),
                            deliver_after => $11::pg_catalog.timestamptz, expires_at => $12::pg_catalog.timestamptz,
                            max_attempts => $13::pg_catalog.int4, correlation_id => $14::pg_catalog.text,
                            encoding => $16::pg_catalog.text)
