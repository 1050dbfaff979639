-- gate_close: see gate_open.
DELETE FROM outbox_gate
