-- log_waits: whether messages of the log wait to be admitted; also true when that would take long to find out. ?1 how many
-- messages to look at.
SELECT CASE WHEN (SELECT max(n) FROM outbox_message) > g.admitted + ?1 THEN 1
            ELSE EXISTS (SELECT 1 FROM outbox_message m WHERE m.n > g.admitted AND m.bytes IS NOT NULL) END
  FROM outbox_log g
