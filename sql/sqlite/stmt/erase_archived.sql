-- erase_archived: what purge had left of a tenant's messages. ?1 tenant.
DELETE FROM outbox_archived WHERE tenant_id = ?1
