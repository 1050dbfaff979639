-- doorbell_ask: asks for the doorbell's lock; sent and not waited for. $1 doorbell, $2 how long the holder may show no sign of
-- life, in ms: a frozen relay must not silence producers for good. A cancelled ask sets no limit, for set_config is undone.
select (select pg_catalog.set_config(name, $2::pg_catalog.text, false) from pg_catalog.pg_settings
         where name operator(pg_catalog.=) 'idle_session_timeout'),
       pg_catalog.pg_advisory_lock(@schema@.doorbell_class(), $1::pg_catalog.int4)
