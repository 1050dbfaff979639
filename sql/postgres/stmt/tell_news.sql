-- tell_news: enqueues news of dead letters. $1 payload, $2 recipient, $3 upto.
select @schema@.tell_news($1::pg_catalog.jsonb, $2::pg_catalog.text, $3::pg_catalog.text)
