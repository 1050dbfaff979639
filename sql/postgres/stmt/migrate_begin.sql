-- migrate_begin: opens the transaction of a migration. Nothing of the session's may change what its text means.
begin;
set local search_path = pg_catalog, pg_temp;
set local standard_conforming_strings = on;
set local check_function_bodies = on
