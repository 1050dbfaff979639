-- rollback: gives it up.
rollback
