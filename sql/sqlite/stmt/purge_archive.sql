-- purge_archive: what remains of a message whose attempts are kept longer. ?1 n.
INSERT INTO outbox_archived (n, id, lane, created_at, tenant_id, key, seq, dedupe_key, subject, correlation_id)
SELECT m.n, m.id, m.lane, m.created_at, m.tenant_id, m.key, m.seq, m.dedupe_key, m.subject, m.correlation_id
  FROM outbox_message m
 WHERE m.n = ?1 AND EXISTS (SELECT 1 FROM outbox_attempt a WHERE a.n = m.n)
