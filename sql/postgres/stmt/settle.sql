-- settle: says how claimed attempts ended, many at once. An element whose lease is gone is reported and changes nothing.
-- $1 ids, $2 tokens, $3 outcomes, $4 codes, $5 errors, $6 references, $7 outputs, $8 delays in microseconds (-1: by
-- policy; the lowest: never), $9 latencies in microseconds (null: not measured), $10 the places that the claim told; arrays of one length, $4 to
-- $10 may be null as a whole; $11 the beginning of the name they were claimed under, or null; $12 what they
-- may spend in all, or null.
-- Columns: ord (from 1), result (ok, lost, unknown), dead; no row for what is simply ok.
-- Locks: the queue rows settled and their keys' successors; waits only for a claim's moment.
select ord, result, dead
from @schema@.settle(ids => $1::pg_catalog.uuid[], tokens => $2::pg_catalog.int8[], outcomes => $3::pg_catalog.int4[],
                     codes => $4::pg_catalog.text[],
                     errors => $5::pg_catalog.text[], refs => $6::pg_catalog.text[],
                     outputs => @schema@.as_json($7::pg_catalog.text[]), delays => $8::pg_catalog.int8[],
                     latencies => $9::pg_catalog.int8[], places => $10::pg_catalog.tid[], brief => true,
                     worker => $11::pg_catalog.text, budgets => $12::pg_catalog.int4[])
