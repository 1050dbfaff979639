-- savepoint: a part of a transaction that can be undone alone: an application's hook, or a bulk enqueue.
SAVEPOINT outbox_part
