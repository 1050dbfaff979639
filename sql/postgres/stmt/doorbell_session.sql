-- doorbell_session: sets the doorbell's connection up. No timeout of the role's may end a wait for the lock or a sleep; a
-- client that is gone is noticed within half a minute, in a lock's queue within a second: what it holds silences
-- producers. Settings that this server does not have (before 14) are left out.
-- Lock -1 says that somebody listens: without it no producer rings. Listeners share it.
select pg_catalog.set_config('search_path', 'pg_catalog, pg_temp', false),
       pg_catalog.set_config('default_transaction_isolation', 'read committed', false),
       pg_catalog.set_config('client_min_messages', 'warning', false),
       pg_catalog.set_config('application_name', pg_catalog.left(pg_catalog.current_setting('application_name'), 54)
           operator(pg_catalog.||) ' doorbell', false),
       pg_catalog.set_config('statement_timeout', '0', false),
       pg_catalog.set_config('lock_timeout', '0', false),
       pg_catalog.set_config('tcp_keepalives_idle', '10', false),
       pg_catalog.set_config('tcp_keepalives_interval', '5', false),
       pg_catalog.set_config('tcp_keepalives_count', '3', false),
       (select pg_catalog.set_config(name, '0', false) from pg_catalog.pg_settings
         where name operator(pg_catalog.=) 'idle_session_timeout'),
       (select pg_catalog.set_config(name, '1000', false) from pg_catalog.pg_settings
         where name operator(pg_catalog.=) 'client_connection_check_interval'),
       pg_catalog.pg_advisory_lock_shared(@schema@.doorbell_class(), -1)
