-- list_edge_tenant: the number of the last of so many messages of a tenant, the newest first. ?1 how many, ?2 below this number, ?3 tenant. Column: n; no row: there are fewer.
SELECT n FROM outbox_message WHERE n < ?2 AND tenant_id = ?3 ORDER BY n DESC LIMIT 1 OFFSET ?1 - 1
