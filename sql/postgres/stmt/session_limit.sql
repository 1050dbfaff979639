-- session_limit: how long a statement of this connection may take. $1 in milliseconds. A hook that takes longer is cancelled,
-- and fails alone, before the caller gives the whole connection up.
select pg_catalog.set_config('statement_timeout', $1::pg_catalog.text, false)
