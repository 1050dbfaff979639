-- receipt: what the last enqueue of this transaction answered. Columns: id, seq, created.
SELECT id, seq, created FROM outbox_last
