-- discard: an operator gives a dead letter up. ?1 n, ?2 now.
UPDATE outbox_dead SET discarded_at = ?2 WHERE n = ?1
