-- event: lets an outcome pass before the application's triggers.
-- ?1 n, ?2 event, ?3 now, ?4 status, ?5 attempt, ?6 actor, ?7 code, ?8 error, ?9 reference, ?10 output.
INSERT INTO outbox_event (event, at, id, status, namespace, topic, tenant_id, key, seq, dedupe_key, subject, recipient,
                          correlation_id, attempt, actor, code, error, reference, output)
SELECT ?2, ?3, m.id, ?4, l.namespace, l.topic, m.tenant_id, m.key, m.seq, m.dedupe_key, m.subject, m.recipient,
       m.correlation_id, ?5, ?6, ?7, ?8, ?9, ?10
  FROM outbox_message m JOIN outbox_lane l ON l.n = m.lane
 WHERE m.n = ?1
