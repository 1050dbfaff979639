-- savepoint_undo: undoes the part; it stays open until it is released.
ROLLBACK TO outbox_part
