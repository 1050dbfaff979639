-- attempts: every attempt of a message, the one in progress included. $1 message id.
-- Columns: message_id, attempt_no, outcome, worker, code, error, reference, claimed_at, completed_at, latency in
-- microseconds (null: not measured).
select message_id, attempt_no, outcome, worker, code, error, reference, claimed_at, completed_at,
       latency_ms::bigint * 1000
from @schema@.attempts
where message_id = $1::uuid
order by attempt_no
