-- relays: those that run. Columns: worker, host, pid, version, state, started_at, seen_at, alive, info.
select worker, host, pid, version, state, started_at, seen_at, alive, info::pg_catalog.text
from @schema@.relays
order by started_at, worker
