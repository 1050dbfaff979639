-- explain: why a message is not delivered yet. $1 message id. Columns: step, message_id, state, reason, facts, command.
select step, message_id::pg_catalog.text, state, reason, facts::pg_catalog.text, command
from @schema@.explain($1::pg_catalog.uuid)
