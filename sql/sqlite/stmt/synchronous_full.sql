-- synchronous_full: a commit survives a power failure.
PRAGMA synchronous = FULL
