-- token_revoke: ends a token. ?1 name, ?2 now, ?3 actor.
UPDATE outbox_token SET revoked_at = ?2, revoked_by = ?3 WHERE name = ?1 AND revoked_at IS NULL
