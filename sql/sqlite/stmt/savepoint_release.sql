-- savepoint_release: the part is done.
RELEASE outbox_part
