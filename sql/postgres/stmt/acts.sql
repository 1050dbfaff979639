-- acts: what operators did, in order; the last thousand when no message is named. $1 message id or null.
-- Columns: at, actor, action, reason, message_id, detail.
select at, actor, action, reason, message_id::pg_catalog.text, detail::pg_catalog.text
from (select * from @schema@.acts
       where $1::pg_catalog.uuid is null or message_id operator(pg_catalog.=) $1::pg_catalog.uuid
       order by id desc limit 1000) t
order by id
