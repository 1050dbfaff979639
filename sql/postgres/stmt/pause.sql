-- pause: stops the claims of a namespace, a topic, a destination or, all null, of everything. On record.
-- $1 namespace, $2 topic, $3 destination, $4 actor, $5 reason.
select @schema@.pause(namespace => $1::text, topic => $2::text, destination => $3::text, actor => $4::text,
                      reason => $5::text)
