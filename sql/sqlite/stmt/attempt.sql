-- attempt: puts the end of an attempt on record.
-- ?1 n, ?2 number, ?3 outcome, ?4 spent, ?5 claimed at, ?6 completed at, ?7 latency, ?8 worker, ?9 code, ?10 error,
-- ?11 reference. OR FAIL: with ABORT, and a trigger on the table, SQLite would copy every page it is about to change.
INSERT OR FAIL INTO outbox_attempt (n, attempt_no, outcome, spent, claimed_at, completed_at, latency, worker, code, error, reference)
VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10, ?11)
