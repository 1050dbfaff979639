-- detail_token: what is recorded of a token. ?1 name, ?2 role, ?3 tenant, ?4 expires at; role null: it is revoked.
SELECT CASE WHEN ?2 IS NULL THEN json_object('name', ?1)
            ELSE json_object('name', ?1, 'role', ?2, 'tenant', ?3, 'expires_at', ?4) END
