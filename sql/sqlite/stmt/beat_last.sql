-- beat_last: a relay has stopped. ?1 worker.
DELETE FROM outbox_relay WHERE worker = ?1
