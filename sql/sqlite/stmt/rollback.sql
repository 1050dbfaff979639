-- rollback: gives the open transaction up.
ROLLBACK
