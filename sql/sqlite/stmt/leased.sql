-- leased: the lease of a message, if it is the one that the token names. ?1 n, ?2 attempt number.
-- Columns: lane, sid, seq, spent, ceiling, expires_at, claimed_at, holder, retry_base, retry_cap.
SELECT lane, sid, seq, spent, ceiling, expires_at, claimed_at, holder, retry_base, retry_cap
  FROM outbox_queue
 WHERE n = ?1 AND state = 1 AND attempts = ?2
