-- act: puts an operator's act on record. ?1 now, ?2 actor, ?3 action, ?4 reason, ?5 message id, ?6 tenant, ?7 detail.
INSERT INTO outbox_act (at, actor, action, reason, message_id, tenant_id, detail) VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7)
