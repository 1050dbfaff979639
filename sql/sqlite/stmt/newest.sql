-- newest: the highest number of a message; null when there is none.
SELECT max(n) FROM outbox_message
