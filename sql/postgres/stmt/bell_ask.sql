-- bell_ask: asks for the doorbell's lock; sent and not waited for. $1 bell, $2 how long the holder may show no sign of
-- life, in ms: a frozen relay must not silence producers for good. A cancelled ask sets no limit, for set_config is undone.
select (select set_config(name, $2::text, false) from pg_settings where name = 'idle_session_timeout'),
       pg_advisory_lock(@schema@.bell_class(), $1::int)
