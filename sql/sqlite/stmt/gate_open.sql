-- gate_open: lets deletions pass the guards, until gate_close in the same transaction. ?1 purge before, ?2 tenant.
INSERT INTO outbox_gate (one, purge_before, tenant_id) VALUES (1, ?1, ?2)
