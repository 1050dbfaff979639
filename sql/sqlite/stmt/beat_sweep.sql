-- beat_sweep: removes relays that are long gone, or were seen by a clock that was ahead. ?1 now.
DELETE FROM outbox_relay WHERE seen_at < ?1 - max(86400000000, 10 * every) OR seen_at > ?1 + 3600000000
