-- setting: changes one setting of a namespace; a value of null goes back to the default. ?1 namespace, ?2 name, ?3
-- value.
UPDATE outbox_namespace
   SET dedupe_scope = CASE ?2 WHEN 'dedupe_scope' THEN ?3 ELSE dedupe_scope END,
       order_scope = CASE ?2 WHEN 'order_scope' THEN ?3 ELSE order_scope END,
       tenant_prefix = CASE ?2 WHEN 'tenant_prefix' THEN ?3 ELSE tenant_prefix END,
       on_dead = CASE ?2 WHEN 'on_dead' THEN ?3 ELSE on_dead END,
       max_payload = CASE ?2 WHEN 'max_payload' THEN ?3 ELSE max_payload END,
       max_attempts = CASE ?2 WHEN 'max_attempts' THEN ?3 ELSE max_attempts END,
       retry_base = CASE ?2 WHEN 'retry_base' THEN ?3 ELSE retry_base END,
       retry_cap = CASE ?2 WHEN 'retry_cap' THEN ?3 ELSE retry_cap END,
       retention = CASE ?2 WHEN 'retention' THEN ?3 ELSE retention END,
       attempt_retention = CASE ?2 WHEN 'attempt_retention' THEN ?3 ELSE attempt_retention END
 WHERE name = ?1
