-- token_revoke: ends a token. On record. $1 name, $2 actor, $3 reason. Columns: whether there was one.
select @schema@.revoke_token(name => $1::pg_catalog.text, actor => $2::pg_catalog.text, reason => $3::pg_catalog.text)
