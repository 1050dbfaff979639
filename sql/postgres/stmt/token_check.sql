-- token_check: whose token has this SHA-256 ($1). Columns: name, role, tenant.
select name, role, tenant_id::pg_catalog.text from @schema@.check_token($1::pg_catalog.bytea)
