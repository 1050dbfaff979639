-- relays: those that run. ?1 now. Columns: worker, host, pid, version, state, started_at, seen_at, alive, info.
SELECT worker, host, pid, version, state, started_at, seen_at, seen_at > ?1 - 3 * every, info
  FROM outbox_relay
 ORDER BY started_at, worker
