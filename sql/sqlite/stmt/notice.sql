-- notice: whether it is time to tell operators of dead letters. ?1 now, ?2 time between two. Columns: when they were told last, up to when.
-- No row: not yet, or the last message is still on its way.
SELECT x.at, x.upto FROM outbox_notice x
 WHERE (x.at <= ?1 - ?2 OR x.at > ?1)
   AND NOT EXISTS (SELECT 1 FROM outbox_state s WHERE s.id = x.message_id AND s.status IN ('pending', 'processing'))
