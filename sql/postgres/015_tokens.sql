-- Tokens of the admin API. A token is a random text that its maker sees once; here is only its SHA-256.

create table @schema@.token (
    name       text primary key check (name ~ '^[A-Za-z0-9_.@-]{1,64}$'),
    hash       bytea not null unique check (octet_length(hash) = 32),
    role       text not null check (role in ('viewer', 'operator', 'admin')),
    tenant_id  uuid,  -- it reaches the rows of this tenant only; null: all
    created_at timestamptz not null default clock_timestamp(),
    created_by text not null,
    expires_at timestamptz,
    used_at    timestamptz, -- to the hour
    revoked_at timestamptz,
    revoked_by text,
    check (tenant_id is null or role <> 'admin')
);

-- Adds a token. On record, without the hash.
create function @schema@.create_token(name text, hash bytea, role text, tenant uuid default null, expires_at timestamptz default null,
    actor text default null, reason text default null) returns void
    language plpgsql security definer
    set search_path = pg_catalog, pg_temp
as $$
#variable_conflict use_column
begin
    perform @schema@.check_no_tenant();
    if create_token.name is null or create_token.name !~ '^[A-Za-z0-9_.@-]{1,64}$' then
        raise exception 'the name of a token has 1 to 64 letters, digits, and the characters _ . @ -' using errcode = 'OB001',
            hint = 'Choose a name that says who uses it.';
    elsif create_token.role is null or create_token.role not in ('viewer', 'operator', 'admin') then
        raise exception 'the role of a token is viewer, operator or admin, not "%"', left(create_token.role, 64) using errcode = 'OB001',
            hint = 'Give one of the three.';
    elsif create_token.tenant is not null and create_token.role = 'admin' then
        raise exception 'a tenant''s token is a viewer''s or an operator''s' using errcode = 'OB001',
            hint = 'An admin changes what all tenants share.';
    elsif create_token.expires_at <= clock_timestamp() then
        raise exception 'the token would have expired already' using errcode = 'OB001', hint = 'Give a time to come.';
    elsif octet_length(create_token.hash) is distinct from 32 then
        raise exception 'the hash is not a SHA-256' using errcode = 'OB001', hint = 'Give 32 bytes.';
    end if;
    insert into @schema@.token (name, hash, role, tenant_id, created_by, expires_at)
    values (create_token.name, create_token.hash, create_token.role, create_token.tenant, coalesce(create_token.actor, session_user),
            create_token.expires_at)
    on conflict do nothing;
    if not found then
        raise exception 'there is a token "%" already', create_token.name using errcode = 'OB001',
            hint = 'Names are not used again: choose another one.';
    end if;
    perform @schema@.record(create_token.actor, 'create_token', create_token.reason, null, null, jsonb_build_object('name', create_token.name,
        'role', create_token.role, 'tenant', create_token.tenant, 'expires_at', create_token.expires_at));
end
$$;

-- Ends a token at once; false if there is none of this name, or it is revoked already.
create function @schema@.revoke_token(name text, actor text default null, reason text default null) returns boolean
    language plpgsql security definer
    set search_path = pg_catalog, pg_temp
as $$
#variable_conflict use_column
begin
    perform @schema@.check_no_tenant();
    update @schema@.token t set revoked_at = clock_timestamp(), revoked_by = coalesce(revoke_token.actor, session_user)
     where t.name = revoke_token.name and t.revoked_at is null;
    if not found then
        return false;
    end if;
    perform @schema@.record(revoke_token.actor, 'revoke_token', revoke_token.reason, null, null, jsonb_build_object('name', revoke_token.name));
    return true;
end
$$;

-- Whose token has this hash: no row if nobody's, or if it is revoked or expired.
create function @schema@.check_token(hash bytea) returns table (name text, role text, tenant_id uuid)
    language plpgsql security definer
    set search_path = pg_catalog, pg_temp
as $$
#variable_conflict use_column
declare
    v_now constant timestamptz := clock_timestamp();
    t @schema@.token;
begin
    select * into t from @schema@.token x where x.hash = check_token.hash and x.revoked_at is null and (x.expires_at is null or x.expires_at > v_now);
    if not found then
        return;
    end if;
    if t.used_at is null or t.used_at < v_now - interval '1 hour' then
        update @schema@.token x set used_at = date_trunc('hour', v_now) where x.name = t.name;
    end if;
    return query select t.name, t.role, t.tenant_id;
end
$$;

-- The tokens without their hashes. A session with a tenant sees none.
create view @schema@.tokens as
    select t.name, t.role, t.tenant_id, t.created_at, t.created_by, t.expires_at, t.used_at, t.revoked_at, t.revoked_by
      from @schema@.token t
     where (select @schema@.current_tenant()) is null;

do $$
declare
    c record;
begin
    for c in select * from (values
        ('tokens', null, 'The tokens of the admin API, without their secrets.'),
        ('tokens', 'name', 'Its name: the actor of what is done with it.'),
        ('tokens', 'role', 'viewer, operator or admin.'),
        ('tokens', 'tenant_id', 'It reaches the rows of this tenant only; null: all.'),
        ('tokens', 'created_at', 'When it was made.'),
        ('tokens', 'created_by', 'By whom.'),
        ('tokens', 'expires_at', 'It is not accepted from then on; null: it does not expire.'),
        ('tokens', 'used_at', 'When it was used last, to the hour.'),
        ('tokens', 'revoked_at', 'When it was revoked.'),
        ('tokens', 'revoked_by', 'By whom.')) c(view, col, text) loop
        if c.col is null then
            execute format('comment on view %I.%I is %L', @schema_text@, c.view, c.text);
        else
            execute format('comment on column %I.%I.%I is %L', @schema_text@, c.view, c.col, c.text);
        end if;
    end loop;
end
$$;
