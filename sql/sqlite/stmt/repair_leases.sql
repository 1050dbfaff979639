-- repair_leases: no lease is longer than a day; one that says so was given by a clock that was ahead, and ends now. ?1 now.
UPDATE outbox_queue SET until = ?1 WHERE state = 1 AND until > ?1 + 90000000000
