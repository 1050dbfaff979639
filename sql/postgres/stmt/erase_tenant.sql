-- erase_tenant: removes all that belongs to a tenant, on record. $1 tenant, $2 actor, $3 reason. Column: how many.
select @schema@.erase_tenant(tenant => $1::pg_catalog.uuid, actor => $2::pg_catalog.text, reason => $3::pg_catalog.text)
