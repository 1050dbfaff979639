-- bell_session: sets the doorbell's connection up. No timeout of the role's may end a wait for the lock or a sleep; a
-- client that is gone is noticed within half a minute, in a lock's queue within a second: what it holds silences
-- producers. Settings that this server does not have (before 14) are left out.
select set_config('default_transaction_isolation', 'read committed', false),
       set_config('client_min_messages', 'warning', false),
       set_config('application_name', left(current_setting('application_name'), 54) || ' doorbell', false),
       set_config('statement_timeout', '0', false),
       set_config('lock_timeout', '0', false),
       set_config('tcp_keepalives_idle', '10', false),
       set_config('tcp_keepalives_interval', '5', false),
       set_config('tcp_keepalives_count', '3', false),
       (select set_config(name, '0', false) from pg_settings where name = 'idle_session_timeout'),
       (select set_config(name, '1000', false) from pg_settings where name = 'client_connection_check_interval')
