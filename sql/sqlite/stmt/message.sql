-- message: all that a delivery says of a message. ?1 n. Columns: see read_message in claim.c.
SELECT m.id, l.namespace, l.topic, m.tenant_id, m.key, m.seq, m.dedupe_key, m.subject, m.recipient, m.headers,
       m.correlation_id, m.content_type, m.payload, m.priority, m.created_at, m.expires_at
  FROM outbox_message m JOIN outbox_lane l ON l.n = m.lane
 WHERE m.n = ?1
