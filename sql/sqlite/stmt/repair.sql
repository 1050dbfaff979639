-- repair: counts an attempt that was lost with its worker.
UPDATE outbox_repair SET total = total + 1
