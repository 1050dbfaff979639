-- ahead: the rows of a key before a seq. ?1 sid, ?2 seq. Columns: state, holder, until, prefetch.
SELECT state, holder, until, prefetch FROM outbox_queue WHERE sid = ?1 AND seq < ?2 ORDER BY seq
