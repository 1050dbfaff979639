-- settings: the settings of namespaces: all of '*', which has the defaults, and those that a namespace has of its own.
-- Columns: namespace, name, value; an interval has its microseconds in the fourth column instead, -1 for forever.
WITH s(namespace, place, name, value, us) AS (
    SELECT name, 1, 'max_attempts', max_attempts, NULL FROM outbox_namespace
    UNION ALL SELECT name, 2, 'retry_base', NULL, retry_base FROM outbox_namespace
    UNION ALL SELECT name, 3, 'retry_cap', NULL, retry_cap FROM outbox_namespace
    UNION ALL SELECT name, 4, 'on_dead', on_dead, NULL FROM outbox_namespace
    UNION ALL SELECT name, 5, 'order_scope', order_scope, NULL FROM outbox_namespace
    UNION ALL SELECT name, 6, 'dedupe_scope', dedupe_scope, NULL FROM outbox_namespace
    UNION ALL SELECT name, 7, 'tenant_prefix', CASE tenant_prefix WHEN 1 THEN 'on' WHEN 0 THEN 'off' END, NULL FROM outbox_namespace
    UNION ALL SELECT name, 8, 'max_payload', max_payload, NULL FROM outbox_namespace
    UNION ALL SELECT name, 10, 'retention', NULL, retention FROM outbox_namespace
    UNION ALL SELECT name, 11, 'attempt_retention', NULL, attempt_retention FROM outbox_namespace
)
SELECT namespace, name, CAST(value AS TEXT), us FROM s
 WHERE namespace = '*' OR value IS NOT NULL OR us IS NOT NULL
 ORDER BY namespace <> '*', namespace, place
