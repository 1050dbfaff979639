-- doorbell_hello: the first words on the doorbell's connection; leaves no trace, for a pooler may be in between.
-- $1 the doorbell this relay holds while it is busy. Columns: the server's process, a channel to listen to; a row per doorbell in
-- use, since a topic may have been given a doorbell of its own (assign_doorbell).
select pg_catalog.pg_backend_pid()::pg_catalog.text, @schema@.doorbell_channel(b.doorbell)
from (select 0 as doorbell union select $1::pg_catalog.int4 union select l.doorbell from @schema@.lane l) b
