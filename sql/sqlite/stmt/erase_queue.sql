-- erase_queue: a tenant's undelivered messages. Its keys are its own, so nobody waits behind them. ?1 tenant.
DELETE FROM outbox_queue WHERE n IN (SELECT n FROM outbox_message WHERE tenant_id = ?1)
