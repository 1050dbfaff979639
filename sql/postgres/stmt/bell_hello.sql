-- bell_hello: the first words on the doorbell's connection; leaves no trace, for a pooler may be in between.
-- $1 the bell this relay holds while it is busy. Columns: the server's process, a channel to listen to; a row per bell in
-- use, since a topic may have been given a bell of its own (assign_bell).
select pg_catalog.pg_backend_pid()::pg_catalog.text, @schema@.bell_channel(b.bell)
from (select 0 as bell union select $1::pg_catalog.int4 union select l.bell from @schema@.lane l) b
