-- admit_upto: the log goes into the queue up to number ?1, or as many as ?2. The trigger outbox_admit does it.
UPDATE outbox_log SET admitted = min(?1, admitted + ?2) WHERE one = 1 AND admitted < ?1
