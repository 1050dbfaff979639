-- erase_tokens: a tenant's tokens. ?1 tenant.
DELETE FROM outbox_token WHERE tenant_id = ?1
