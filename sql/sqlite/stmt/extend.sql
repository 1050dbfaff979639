-- extend: the lease that the token names ends later. ?1 n, ?2 the token's part of the attempt number, ?3 until, ?4 id,
-- ?5 how the name it was claimed under begins, or null.
UPDATE outbox_queue SET until = ?3
 WHERE n = ?1 AND state = 1 AND attempts & 1048575 = ?2
   AND EXISTS (SELECT 1 FROM outbox_message m WHERE m.n = ?1 AND m.id = ?4)
   AND (?5 IS NULL OR substr(holder, 1, length(?5)) = ?5)
