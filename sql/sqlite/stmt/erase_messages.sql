-- erase_messages: a tenant's messages. ?1 tenant.
DELETE FROM outbox_message WHERE tenant_id = ?1
