-- tune: changes a setting of the relay while it runs; changes no row when it is so already.
-- ?1 name, ?2 value, ?3 now, ?4 actor, ?5 reason.
INSERT INTO outbox_tuning (name, value, at, actor, reason) VALUES (?1, ?2, ?3, ?4, ?5)
    ON CONFLICT (name) DO UPDATE
   SET value = excluded.value, at = excluded.at, actor = excluded.actor, reason = excluded.reason
 WHERE value <> excluded.value
