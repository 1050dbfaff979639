-- erase_dedupe: a tenant's dedupe keys. ?1 tenant.
DELETE FROM outbox_dedupe WHERE tenant_id = ?1
