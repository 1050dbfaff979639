-- prefix: the ids of messages in a range, at most three. $1 from, $2 to.
select id::pg_catalog.text
from @schema@.messages
where id operator(pg_catalog.>=) $1::pg_catalog.uuid and id operator(pg_catalog.<=) $2::pg_catalog.uuid
order by id
limit 3
