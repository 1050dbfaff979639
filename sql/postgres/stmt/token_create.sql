-- token_create: adds a token of the API. On record.
-- $1 name, $2 SHA-256, $3 role, $4 tenant or null, $5 expires at or null, $6 actor, $7 reason.
select @schema@.create_token(name => $1::pg_catalog.text, hash => $2::pg_catalog.bytea, role => $3::pg_catalog.text,
                             tenant => $4::pg_catalog.uuid, expires_at => $5::pg_catalog.timestamptz,
                             actor => $6::pg_catalog.text, reason => $7::pg_catalog.text)
