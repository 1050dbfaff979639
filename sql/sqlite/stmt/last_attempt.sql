-- last_attempt: outcome and code of the last attempt of a message. ?1 n.
SELECT outcome, code FROM outbox_attempt WHERE n = ?1 ORDER BY attempt_no DESC LIMIT 1
