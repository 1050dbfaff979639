-- back: a message goes on waiting. ?1 n, ?2 state, ?3 due, ?4 spent, ?5 now, ?6 deferred.
UPDATE outbox_queue
   SET state = ?2, due = ?3, spent = ?4, deferred = ?6, updated_at = ?5, until = NULL, claimed_at = NULL, ceiling = NULL,
       retry_base = NULL, retry_cap = NULL, prefetch = 0, holder = NULL
 WHERE n = ?1
