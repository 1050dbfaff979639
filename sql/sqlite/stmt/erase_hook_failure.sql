-- erase_hook_failure: a tenant's events that hooks refused. ?1 tenant.
DELETE FROM outbox_hook_failure WHERE tenant_id = ?1
