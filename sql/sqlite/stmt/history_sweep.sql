-- history_sweep: removes what is no longer of the last hour. ?1 now.
DELETE FROM outbox_series WHERE at < ?1 - 3900000000 OR at > ?1 + 300000000
