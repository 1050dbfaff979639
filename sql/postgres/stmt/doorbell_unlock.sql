-- doorbell_unlock: lets go of the doorbell's lock, however often it was granted, or not at all; and of lock -1, which is taken
-- again: a producer that saw nobody listen in between has a number below the fence.
select pg_catalog.pg_advisory_unlock_all(),
       pg_catalog.pg_advisory_lock_shared(@schema@.doorbell_class(), -1),
       (select pg_catalog.set_config(name, '0', false) from pg_catalog.pg_settings
         where name operator(pg_catalog.=) 'idle_session_timeout')
