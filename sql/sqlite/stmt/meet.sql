-- meet: a message as an operator's act meets it. ?1 n.
-- Columns: id, tenant, status, attempts, last code, last error, sid, state in the queue, due, lease end, holder, namespace, topic, id of the
-- message of its key that goes before it.
SELECT s.id, s.tenant_id, s.status, s.attempts, s.last_code, s.last_error, q.sid, q.state, q.due, q.until, q.holder, s.namespace, s.topic,
       (SELECT m.id FROM outbox_queue h JOIN outbox_message m ON m.n = h.n WHERE h.sid = q.sid AND h.seq < q.seq ORDER BY h.seq LIMIT 1)
  FROM outbox_state s LEFT JOIN outbox_queue q ON q.n = s.n
 WHERE s.n = ?1
