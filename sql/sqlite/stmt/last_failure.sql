-- last_failure: code and error of the last attempt of a message. ?1 n.
SELECT code, error FROM outbox_attempt WHERE n = ?1 ORDER BY attempt_no DESC LIMIT 1
