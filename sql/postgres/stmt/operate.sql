-- operate: an act of an operator on messages by id, on record.
-- $1 action, $2 ids, $3 topic and $4 namespace to move to, $5 run of a redelivery, $6 actor, $7 reason, $8 status that they must have.
-- Columns: id, result, detail, id of the new message.
select o.id, o.result, o.detail, o.made::pg_catalog.text
  from @schema@.operate(action => $1::pg_catalog.text, ids => $2::pg_catalog.uuid[], topic => $3::pg_catalog.text,
                        namespace => $4::pg_catalog.text, run => $5::pg_catalog.text, actor => $6::pg_catalog.text,
                        reason => $7::pg_catalog.text, status => $8::pg_catalog.text) o
