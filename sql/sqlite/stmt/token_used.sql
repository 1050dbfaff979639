-- token_used: a token was used in this hour. ?1 name, ?2 the hour.
UPDATE outbox_token SET used_at = ?2 WHERE name = ?1
