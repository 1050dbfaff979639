-- lease: begins an attempt. Changes one row, or none when it is not as it was seen.
-- ?1 n, ?2 the state and ?3 the attempts it was seen with, ?4 until, ?5 now, ?6 ceiling, ?7 retry base, ?8 retry cap,
-- ?9 prefetch, ?10 holder.
UPDATE outbox_queue
   SET state = 1, attempts = attempts + 1, spent = spent + 1, lost = lost + (state = 1), until = ?4, claimed_at = ?5, updated_at = ?5, ceiling = ?6,
       retry_base = ?7, retry_cap = ?8, prefetch = ?9, holder = ?10
 WHERE n = ?1 AND state = ?2 AND attempts = ?3
