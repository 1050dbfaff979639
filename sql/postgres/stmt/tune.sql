-- tune: changes a setting of the relays while they run; value null goes back to the configuration. On record.
-- $1 name, $2 value, $3 actor, $4 reason.
select @schema@.tune(name => $1::text, value => $2::text, actor => $3::text, reason => $4::text)
