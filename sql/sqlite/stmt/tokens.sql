-- tokens: all of them, the oldest first. Columns: name, role, tenant, created at, created by, expires at, used at, revoked at, revoked by.
SELECT name, role, tenant_id, created_at, created_by, expires_at, used_at, revoked_at, revoked_by
  FROM outbox_token
 ORDER BY created_at, name
