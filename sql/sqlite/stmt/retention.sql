-- retention: how long messages and attempts are kept, in microseconds; -1 for ever.
SELECT retention, coalesce(attempt_retention, retention) FROM outbox_namespace WHERE name = '*'
