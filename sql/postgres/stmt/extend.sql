-- extend: the leases of these claims end $3 from now.
-- $1 ids, $2 tokens, $3 lease. Columns: ord (from 1), result (ok, lost, unknown).
select ord, result
from @schema@.extend(ids => $1::uuid[], tokens => $2::bigint[], lease => $3::interval)
