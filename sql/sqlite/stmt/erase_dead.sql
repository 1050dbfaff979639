-- erase_dead: a tenant's dead letters. ?1 tenant.
DELETE FROM outbox_dead WHERE n IN (SELECT n FROM outbox_message WHERE tenant_id = ?1)
