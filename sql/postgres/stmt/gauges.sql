-- gauges: the figures of the queue, the total first. Columns: namespace, pending, due, processing, stuck, parked,
-- blocked_keys, dead, oldest_due_s, estimated, table_bytes, dead_tuples,
-- repairs, partitions.
select namespace, pending, due, processing, stuck, parked, blocked_keys, dead, oldest_due_s, estimated, table_bytes,
       dead_tuples, repairs, partitions
from @schema@.gauges()
