-- page: the messages of a window that is open, in the order of the log. Sent right behind take, in a transaction of its own: the
-- shard is free for others while rows are sent. Results in binary; the caller borrows from them.
-- $1 nonce of the take. Columns: those of claim.sql without the last; src/store/pg/claim.c counts on this order.
select m.id, m.token, m.namespace, m.topic, m.tenant_id::pg_catalog.text, m.key, m.seq, m.dedupe_key, m.subject,
       m.recipient, m.headers,
       m.correlation_id, m.payload, m.body, m.content_type, m.priority, m.attempt, m.spent, m.max_attempts, m.redriven,
       m.created_at, m.claimed_at, m.locked_until, m.expires_at, m.place, m.encoding, m.stream, m.deferred, m.lost,
       m.own_attempts, m.retry_base_ms, m.retry_cap_ms
from @schema@.window_messages m
where m.nonce OPERATOR(pg_catalog.=) $1::pg_catalog.int8
