-- turn: what tenants have ready, after tenant ?1, lane ?2, priority ?3: the next lane and priority of that tenant, or the
-- first of the next one. Columns: tenant_id, lane, prio, due.
SELECT tenant_id, lane, prio, due
  FROM outbox_queue
 WHERE state = 0 AND tenant_id IS NOT NULL AND (tenant_id, lane, prio) > (?1, ?2, ?3)
 ORDER BY tenant_id, lane, prio, due
 LIMIT 1
