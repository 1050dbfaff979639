-- extend: the lease that the token names ends later. ?1 n, ?2 attempt number, ?3 until.
UPDATE outbox_queue SET until = ?3 WHERE n = ?1 AND state = 1 AND attempts = ?2
