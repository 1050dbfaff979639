-- erase_attempts: a tenant's attempts. ?1 tenant.
DELETE FROM outbox_attempt
 WHERE n IN (SELECT n FROM outbox_message WHERE tenant_id = ?1 UNION ALL SELECT n FROM outbox_archived WHERE tenant_id = ?1)
