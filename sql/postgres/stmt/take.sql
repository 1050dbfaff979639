-- take: opens a window on the log: its messages are then read by page. Always one row; size 0: nothing was taken.
-- $1 worker, $2 limit, $3 lease, $4 nonce, $5 shard to try first or null, $6 bytes of payloads at most, $7 run, $8 and $9 namespaces and
-- topics of lanes to leave out, $10 to $12 patterns of namespaces and topics and whether to leave out the lanes that match
-- them first; null from $5 on: no restriction.
-- Columns: shard, id, size, more (there is more to take now), busy (there is more behind a window that is open, or somebody is taking
-- it just now), queued (the queue has rows that may be due), and what the messages have in common: taken_at, until, max_attempts,
-- retry_base_ms, retry_cap_ms.
-- The last column makes this transaction commit without waiting for the disk, so that nobody waits for the shard as long: page waits.
-- Locks: the row of the shard; that of messages without a key is waited for, a tenth of a second at most.
select shard, id, size, more, busy, queued, taken_at, until, max_attempts, retry_base_ms, retry_cap_ms,
       pg_catalog.set_config('synchronous_commit', 'off', true)
from @schema@.take(worker => $1::pg_catalog.text, "limit" => $2::pg_catalog.int4, lease => $3::pg_catalog.interval,
                   nonce => $4::pg_catalog.int8, hint => $5::pg_catalog.int4, max_bytes => $6::pg_catalog.int8,
                   run => $7::pg_catalog.int4, skip_namespaces => $8::pg_catalog.text[],
                   skip_topics => $9::pg_catalog.text[], rule_namespaces => $10::pg_catalog.text[],
                   rule_topics => $11::pg_catalog.text[], rule_skips => $12::pg_catalog.bool[])
