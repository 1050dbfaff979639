-- Tokens of the admin API. A token is a random text that its maker sees once; here is only its SHA-256.

CREATE TABLE outbox_token (
    name       TEXT PRIMARY KEY,
    hash       BLOB NOT NULL UNIQUE,
    role       TEXT NOT NULL CHECK (role IN ('viewer', 'operator', 'admin')),
    tenant_id  TEXT,             -- it reaches the rows of this tenant only; null: all
    created_at INTEGER NOT NULL,
    created_by TEXT NOT NULL,
    expires_at INTEGER,
    used_at    INTEGER,          -- to the hour
    revoked_at INTEGER,
    revoked_by TEXT,
    CHECK (tenant_id IS NULL OR role <> 'admin')
) STRICT, WITHOUT ROWID;

-- The tokens without their hashes.
CREATE VIEW outbox_tokens AS
    SELECT name, role, tenant_id,
           strftime('%Y-%m-%dT%H:%M:%S', created_at / 1000000, 'unixepoch') || printf('.%06dZ', created_at % 1000000) AS created_at,
           created_by,
           strftime('%Y-%m-%dT%H:%M:%S', expires_at / 1000000, 'unixepoch') || printf('.%06dZ', expires_at % 1000000) AS expires_at,
           strftime('%Y-%m-%dT%H:%M:%S', used_at / 1000000, 'unixepoch') || printf('.%06dZ', used_at % 1000000) AS used_at,
           strftime('%Y-%m-%dT%H:%M:%S', revoked_at / 1000000, 'unixepoch') || printf('.%06dZ', revoked_at % 1000000) AS revoked_at,
           revoked_by
      FROM outbox_token;
