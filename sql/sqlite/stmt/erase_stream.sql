-- erase_stream: a tenant's keys. ?1 tenant.
DELETE FROM outbox_stream WHERE tenant_id = ?1
