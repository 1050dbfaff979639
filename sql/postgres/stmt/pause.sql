-- pause: stops the claims of a namespace, a topic, a sink or, all null, of everything. On record.
-- $1 namespace, $2 topic, $3 sink, $4 actor, $5 reason.
select @schema@.pause(namespace => $1::pg_catalog.text, topic => $2::pg_catalog.text,
                      sink => $3::pg_catalog.text, actor => $4::pg_catalog.text,
                      reason => $5::pg_catalog.text)
