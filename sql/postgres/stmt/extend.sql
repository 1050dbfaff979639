-- extend: the leases of these claims end $3 from now.
-- $1 ids, $2 tokens, $3 lease, $4 the beginning of the name they were claimed under, or null. Columns: ord (from 1), result (ok, lost, unknown).
select ord, result
from @schema@.extend(ids => $1::pg_catalog.uuid[], tokens => $2::pg_catalog.int8[], lease => $3::pg_catalog.interval,
                     worker => $4::pg_catalog.text)
