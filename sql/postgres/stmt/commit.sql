-- commit: ends it. The server answers ROLLBACK instead when the transaction had failed; the caller checks.
commit
