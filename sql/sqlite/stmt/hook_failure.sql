-- hook_failure: keeps an event that a trigger refused. ?1 to ?10 as in event, ?11 what the trigger said.
INSERT INTO outbox_hook_failure (failed_at, failure, event, at, id, status, namespace, topic, tenant_id, key, seq,
                                 dedupe_key, subject, recipient, correlation_id, attempt, actor, code, error, reference,
                                 output)
SELECT ?3, ?11, ?2, ?3, m.id, ?4, l.namespace, l.topic, m.tenant_id, m.key, m.seq, m.dedupe_key, m.subject, m.recipient,
       m.correlation_id, ?5, ?6, ?7, ?8, ?9, ?10
  FROM outbox_message m JOIN outbox_lane l ON l.n = m.lane
 WHERE m.n = ?1
