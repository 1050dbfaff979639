-- enqueue: one message, in the transaction that is open.
-- ?1 topic, ?2 payload, ?3 key, ?4 dedupe key, ?5 tenant, ?6 namespace, ?7 subject, ?8 recipient, ?9 headers, ?10
-- priority, ?11 deliver after, ?12 expires at, ?13 max attempts, ?14 correlation id, ?15 content type, ?16
-- encoding; all but the first two may be null.
INSERT INTO outbox (topic, payload, key, dedupe_key, tenant_id, namespace, subject, recipient, headers, priority,
                    deliver_after, expires_at, max_attempts, correlation_id, content_type, encoding)
VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10, ?11, ?12, ?13, ?14, ?15, ?16)
