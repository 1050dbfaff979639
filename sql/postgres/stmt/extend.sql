-- extend: the leases of these claims end $3 from now.
-- $1 ids, $2 tokens, $3 lease, $4 the beginning of the name they were claimed under, or null. Columns: ord (from 1), result (ok, lost, unknown).
select ord, result
from @schema@.extend(ids => $1::uuid[], tokens => $2::bigint[], lease => $3::interval, worker => $4::text)
