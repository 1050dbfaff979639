-- enter: the rest of the transaction has the rights of a role, and reaches the rows of a tenant only.
-- $1 tenant or '', $2 role, $3 how long a statement may take.
select pg_catalog.set_config('app.current_tenant_id', $1::pg_catalog.text, true),
       pg_catalog.set_config('statement_timeout', $3::pg_catalog.text, true),
       pg_catalog.set_config('role', $2::pg_catalog.text, true)
