-- tokens: all of them, the oldest first. Columns: name, role, tenant, created at, created by, expires at, used at, revoked at, revoked by.
select name, role, tenant_id::pg_catalog.text, created_at, created_by, expires_at, used_at, revoked_at, revoked_by
from @schema@.tokens
order by created_at, name
