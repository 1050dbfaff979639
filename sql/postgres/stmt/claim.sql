-- claim: takes messages that are due under a lease. Results in binary; the caller borrows from them.
-- $1 worker, $2 limit, $3 lease, $4 namespace, $5 topics, $6 tenant, $7 max attempts, $8 run, $9 prefetch,
-- $10 retry base, $11 retry cap, $12 and $13 namespaces and topics of the only lanes, $14 and $15 those of lanes to leave
-- out, $16 bytes of payloads at most, $17 to $19 patterns of namespaces and topics and whether to leave out the lanes that match
-- them first, $20 whether to put messages of the log into the queue first; null from $4 to $19: no restriction, or the
-- namespace's policy.
-- Columns: src/store/pg/claim.c counts on this order. The last says that there is more than was taken; where nothing was, there
-- is one row with nothing else.
-- Locks: the queue rows it takes; never waits for one.
select c.id, c.namespace, c.topic, c.tenant_id::pg_catalog.text, c.key, c.seq, c.dedupe_key, c.subject, c.recipient, c.headers,
       c.correlation_id, c.payload, c.body, c.content_type, c.priority, c.created_at, c.expires_at, c.encoding, c.stream,
       c.token, c.attempt, c.spent, c.max_attempts, c.redriven, c.claimed_at, c.locked_until, c.place, c.deferred, c.lost,
       c.own_attempts, c.retry_base_ms, c.retry_cap_ms,
       pg_catalog.current_setting('outbox.more', true) OPERATOR(pg_catalog.=) 'on'
from (values (1)) as one(n)
left join @schema@.claim(worker => $1::pg_catalog.text, "limit" => $2::pg_catalog.int4,
       lease => $3::pg_catalog.interval, namespace => $4::pg_catalog.text,
                    topics => $5::pg_catalog.text[], tenant => $6::pg_catalog.uuid,
                    max_attempts => $7::pg_catalog.int4, run => $8::pg_catalog.int4,
                    prefetch => $9::pg_catalog.bool, retry_base => $10::pg_catalog.interval,
                    retry_cap => $11::pg_catalog.interval,
                    only_namespaces => $12::pg_catalog.text[], only_topics => $13::pg_catalog.text[],
                    skip_namespaces => $14::pg_catalog.text[],
                    skip_topics => $15::pg_catalog.text[], max_bytes => $16::pg_catalog.int8,
                    rule_namespaces => $17::pg_catalog.text[],
                    rule_topics => $18::pg_catalog.text[], rule_skips => $19::pg_catalog.bool[],
                    admit => $20::pg_catalog.bool)
     as c(id, token, namespace, topic, tenant_id, key, seq, dedupe_key, subject, recipient, headers, correlation_id,
          payload, body, content_type, priority, attempt, spent, max_attempts, redriven, created_at, claimed_at,
          locked_until, expires_at, place, encoding, stream, deferred, lost, own_attempts, retry_base_ms, retry_cap_ms) on true
