-- commit: ends the transaction that is open.
COMMIT
