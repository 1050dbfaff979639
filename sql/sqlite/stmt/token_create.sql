-- token_create: adds a token of the API; changes no row when there is one of this name.
-- ?1 name, ?2 SHA-256, ?3 role, ?4 tenant, ?5 now, ?6 actor, ?7 expires at.
INSERT INTO outbox_token (name, hash, role, tenant_id, created_at, created_by, expires_at)
SELECT ?1, ?2, ?3, ?4, ?5, ?6, ?7
 WHERE NOT EXISTS (SELECT 1 FROM outbox_token WHERE name = ?1 OR hash = ?2)
