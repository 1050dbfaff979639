-- lease_plain: begins the attempts of all messages of a lane and priority up to a due time and number that have no key,
-- are not expired, have attempts left and need not go alone: the same as lease for each of them, at half the price. ?1 lane, ?2 prio, ?3
-- due, ?4 n, ?5 now, ?6 the claim's limit of attempts, ?7 until, ?8 retry base, ?9 retry cap, ?10 prefetch, ?11 holder.
UPDATE outbox_queue
   SET state = 1, attempts = attempts + 1, spent = spent + 1, until = ?7, claimed_at = ?5, updated_at = ?5,
       ceiling = min(max_attempts, ?6), retry_base = ?8, retry_cap = ?9, prefetch = ?10, holder = ?11
 WHERE state = 0 AND lane = ?1 AND prio = ?2 AND due <= ?3 AND (due, n) <= (?3, ?4)
   AND sid IS NULL AND NOT (lost > 0 AND lost >= spent AND spent = min(max_attempts, ?6) - 1) AND spent < min(max_attempts, ?6) AND (expires_at IS NULL OR expires_at > ?5)
