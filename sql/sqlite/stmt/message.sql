-- message: all that deliveries say of messages, by number from ?1 to ?2, but the names of their lanes.
-- Columns: n, and those that read_message in batch.c reads in this order.
SELECT n, id, tenant_id, key, seq, dedupe_key, subject, recipient, headers, correlation_id, content_type, payload, priority,
       created_at, expires_at, encoding, max_attempts IS NOT NULL
  FROM outbox_message
 WHERE n BETWEEN ?1 AND ?2
 ORDER BY n
