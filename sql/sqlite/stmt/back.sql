-- back: a message goes on waiting. ?1 n, ?2 state, ?3 due, ?4 spent, ?5 now, ?6 deferred, ?7 what it may spend in all; null: as it was. ?8 fingerprint of its failure;
-- null: as it was.
UPDATE outbox_queue
   SET state = ?2, due = ?3, spent = ?4, deferred = ?6, updated_at = ?5, until = NULL, claimed_at = NULL, ceiling = NULL,
       retry_base = NULL, retry_cap = NULL, prefetch = 0, holder = NULL, max_attempts = coalesce(?7, max_attempts), by_sink = max(by_sink, ?7 IS NOT NULL),
       fingerprint = coalesce(?8, fingerprint)
 WHERE n = ?1
