-- configure: changes a setting of a namespace ('*' for the whole outbox). $1 namespace, $2 name, $3 value, $4 actor, $5 reason.
select @schema@.configure(namespace => $1::pg_catalog.text, name => $2::pg_catalog.text, value => $3::pg_catalog.text,
                          actor => $4::pg_catalog.text, reason => $5::pg_catalog.text)
