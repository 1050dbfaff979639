-- settle: says how claimed attempts ended, many at once. An element whose lease is gone is reported and changes nothing.
-- $1 ids, $2 tokens, $3 outcomes, $4 codes, $5 errors, $6 references, $7 outputs, $8 delays in microseconds (-1: by
-- policy; the lowest: never), $9 latencies in microseconds (null: not measured), $10 the places that the claim told; arrays of one length, $4 to
-- $10 may be null as a whole; $11 the beginning of the name they were claimed under, or null.
-- Columns: ord (from 1), result (ok, lost, unknown), dead; no row for what is simply ok.
-- Locks: the queue rows settled and their keys' successors; waits only for a claim's moment.
select ord, result, dead
from @schema@.settle(ids => $1::uuid[], tokens => $2::bigint[], outcomes => $3::int[], codes => $4::text[],
                     errors => $5::text[], refs => $6::text[], outputs => @schema@.as_json($7::text[]), delays => $8::bigint[],
                     latencies => $9::bigint[], places => $10::tid[], brief => true, worker => $11::text)
