-- failed_event: lets one of them pass before the triggers again. ?1 n.
INSERT INTO outbox_event (event, at, id, status, namespace, topic, tenant_id, key, seq, dedupe_key, subject, recipient,
                          correlation_id, attempt, actor, code, error, reference, output)
SELECT event, at, id, status, namespace, topic, tenant_id, key, seq, dedupe_key, subject, recipient, correlation_id,
       attempt, actor, code, error, reference, output
  FROM outbox_hook_failure WHERE n = ?1
