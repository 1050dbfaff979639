-- attempts: every attempt of a message, the one in progress included. $1 message id.
-- Columns: message_id, attempt_no, outcome, worker, code, error, reference, claimed_at, completed_at, latency in
-- microseconds (null: not measured).
select message_id, attempt_no, outcome, worker, code, error, reference, claimed_at, completed_at,
       latency_ms::pg_catalog.int8 operator(pg_catalog.*) 1000
from @schema@.attempts
where message_id operator(pg_catalog.=) $1::pg_catalog.uuid
order by attempt_no
