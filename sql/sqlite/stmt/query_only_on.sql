-- query_only_on: nothing can be written on this connection.
PRAGMA query_only = ON
