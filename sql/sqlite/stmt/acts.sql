-- acts: what operators did, in order; the last thousand when no message is named. ?1 message id or null.
-- Columns: at, actor, action, reason, message_id, detail.
SELECT at, actor, action, reason, message_id, detail
  FROM (SELECT * FROM outbox_act WHERE ?1 IS NULL OR message_id = ?1 ORDER BY n DESC LIMIT 1000)
 ORDER BY n
