-- session: what every connection of ours is set to, once, right after it is made. Statements must not depend on it: behind
-- a pooler it may be another session's by then, so each says where its names are from.
-- Claim and settle refuse other isolation levels, so a database whose default is stricter must not stop us. JIT only
-- costs on statements this short. Warnings of the server's are errors' business: notices would go to stderr. A statement whose
-- client is gone ends within a second: its locks are in others' way. Settings that this server does not have (before 14) are
-- left out.
select pg_catalog.set_config('search_path', 'pg_catalog, pg_temp', false),
       pg_catalog.set_config('default_transaction_isolation', 'read committed', false),
       pg_catalog.set_config('row_security', 'on', false),
       pg_catalog.set_config('datestyle', 'ISO, YMD', false),
       pg_catalog.set_config('intervalstyle', 'postgres', false),
       pg_catalog.set_config('timezone', 'UTC', false),
       pg_catalog.set_config('bytea_output', 'hex', false),
       pg_catalog.set_config('extra_float_digits', '1', false),
       pg_catalog.set_config('standard_conforming_strings', 'on', false),
       pg_catalog.set_config('client_min_messages', 'warning', false),
       pg_catalog.set_config('jit', 'off', false),
       (select pg_catalog.set_config(s.name, '1000', false) from pg_catalog.pg_settings s
         where s.name operator(pg_catalog.=) 'client_connection_check_interval')
