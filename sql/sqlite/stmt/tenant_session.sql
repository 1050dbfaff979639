-- tenant_session: whose rows the views of tenant_views show. ?1 tenant.
INSERT INTO temp.outbox_session (tenant_id) VALUES (?1)
