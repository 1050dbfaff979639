-- erase_tenant: removes all that belongs to a tenant, on record. $1 tenant, $2 actor, $3 reason. Column: how many.
select @schema@.erase_tenant(tenant => $1::uuid, actor => $2::text, reason => $3::text)
