-- lower_prio_tenant: the same for tenant ?3.
SELECT max(prio) FROM outbox_queue WHERE state = 0 AND tenant_id = ?3 AND lane = ?1 AND prio < ?2
