-- tune_reset: the configuration counts again. ?1 name.
DELETE FROM outbox_tuning WHERE name = ?1
