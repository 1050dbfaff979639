-- query_only_off: back to normal.
PRAGMA query_only = OFF
