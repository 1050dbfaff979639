-- doorbell_unlock: lets go of the doorbell's lock, however often it was granted, or not at all. Nothing else is locked on
-- this connection.
select pg_catalog.pg_advisory_unlock_all(),
       (select pg_catalog.set_config(name, '0', false) from pg_catalog.pg_settings
         where name operator(pg_catalog.=) 'idle_session_timeout')
