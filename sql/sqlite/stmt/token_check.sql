-- token_check: whose token has this SHA-256. ?1 SHA-256, ?2 now. Columns: name, role, tenant, used at.
SELECT name, role, tenant_id, used_at FROM outbox_token
 WHERE hash = ?1 AND revoked_at IS NULL AND (expires_at IS NULL OR expires_at > ?2)
