-- acts: what operators did, in order; the last thousand when no message is named. $1 message id or null.
-- Columns: at, actor, action, reason, message_id, detail.
select at, actor, action, reason, message_id::text, detail::text
from (select * from @schema@.acts where $1::uuid is null or message_id = $1::uuid order by id desc limit 1000) t
order by id
