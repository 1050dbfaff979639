-- tune: changes a setting of the relays while they run; value null goes back to the configuration. On record.
-- $1 name, $2 value, $3 actor, $4 reason.
select @schema@.tune(name => $1::pg_catalog.text, value => $2::pg_catalog.text, actor => $3::pg_catalog.text,
                     reason => $4::pg_catalog.text)
