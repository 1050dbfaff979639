-- claim: takes messages that are due under a lease. Results in binary; the caller borrows from them.
-- $1 worker, $2 limit, $3 lease, $4 namespace, $5 topics, $6 tenant, $7 max attempts, $8 run, $9 prefetch,
-- $10 retry base, $11 retry cap, $12 and $13 namespaces and topics of the only lanes, $14 and $15 those of lanes to leave
-- out; null from $4 on: no restriction, or the namespace's policy.
-- Columns: src/store/pg/claim.c counts on this order.
-- Locks: the queue rows it takes; never waits for one.
select id, token, namespace, topic, tenant_id::text, key, seq, dedupe_key, subject, recipient, headers, correlation_id,
       payload, body, content_type, priority, attempt, spent, max_attempts, redriven, created_at, claimed_at,
       locked_until, expires_at, place, encoding, stream, deferred
from @schema@.claim(worker => $1::text, "limit" => $2::int, lease => $3::interval, namespace => $4::text,
                    topics => $5::text[], tenant => $6::uuid, max_attempts => $7::int, run => $8::int,
                    prefetch => $9::boolean, retry_base => $10::interval, retry_cap => $11::interval,
                    only_namespaces => $12::text[], only_topics => $13::text[], skip_namespaces => $14::text[],
                    skip_topics => $15::text[])
     as c(id, token, namespace, topic, tenant_id, key, seq, dedupe_key, subject, recipient, headers, correlation_id,
          payload, body, content_type, priority, attempt, spent, max_attempts, redriven, created_at, claimed_at,
          locked_until, expires_at, place, encoding, stream, deferred)
