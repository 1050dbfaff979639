-- page: the messages of a window that is open, in the order of the log. Sent right behind take, in a transaction of its own: the
-- shard is free for others while rows are sent. Results in binary; the caller borrows from them, but not before this transaction
-- has committed: only then is the take on disk.
-- $1 nonce of the take. Columns: the message as in claim.sql, then what it or its namespace has of its own; src/store/pg/claim.c
-- counts on this order.
select m.id, m.namespace, m.topic, m.tenant_id::pg_catalog.text, m.key, m.seq, m.dedupe_key, m.subject, m.recipient, m.headers,
       m.correlation_id, m.payload, m.body, m.content_type, m.priority, m.created_at, m.expires_at, m.encoding, m.stream,
       m.own_max_attempts, m.space_max_attempts, m.space_retry_base_ms, m.space_retry_cap_ms
from @schema@.window_messages m
where m.nonce OPERATOR(pg_catalog.=) $1::pg_catalog.int8 and (select @schema@.confirm_window($1::pg_catalog.int8))
