-- put_again: a new message like the one with number ?1, in topic ?2 of namespace ?3, due ?4 (null: at once). It names the first one, and
-- has no dedupe key. ?5 now.
INSERT INTO outbox (topic, payload, key, tenant_id, namespace, subject, recipient, headers, priority, deliver_after, expires_at,
                    max_attempts, correlation_id, content_type, encoding)
SELECT ?2, m.payload, m.key, m.tenant_id, ?3, m.subject, m.recipient,
       json_set(coalesce(m.headers, '{}'), '$."x-outbox-origin"', m.id), m.priority, ?4, CASE WHEN m.expires_at > ?5 THEN m.expires_at END,
       m.max_attempts, m.correlation_id, m.content_type, m.encoding
  FROM outbox_message m WHERE m.n = ?1
