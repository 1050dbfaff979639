-- erase_acts: acts on a tenant's messages. ?1 tenant.
DELETE FROM outbox_act WHERE tenant_id = ?1
