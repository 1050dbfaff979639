-- enqueue_bytes: like enqueue, with bytes of a content type for a payload.
-- $1 to $14 as in enqueue, $2 being bytes; $15 content type, $16 encoding.
select id, created, seq
from @schema@.enqueue_bytes(topic => $1::text, payload => $2::bytea, content_type => $15::text, key => $3::text,
                            dedupe_key => $4::text, tenant_id => $5::uuid,
                            namespace => coalesce($6::text, 'default'), subject => $7::text, recipient => $8::text,
                            headers => $9::jsonb, priority => coalesce($10::int, 4),
                            deliver_after => $11::timestamptz, expires_at => $12::timestamptz,
                            max_attempts => $13::int, correlation_id => $14::text, encoding => $16::text)
