"""Outbox beside other queues and outboxes in PostgreSQL: bench/run-peers."""
