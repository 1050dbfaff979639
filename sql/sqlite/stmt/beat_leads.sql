-- beat_leads: whether a relay is the eldest of those that live. ?1 worker, ?2 now.
SELECT ?1 = (SELECT worker FROM outbox_relay WHERE seen_at > ?2 - 3 * every AND state <> 'stopping'
              ORDER BY started_at, worker LIMIT 1)
