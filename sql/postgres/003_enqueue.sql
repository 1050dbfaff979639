-- Enqueue: the only way in.
--
-- Order of locks in one call: dedupe row, then stream row. A producer that uses several keys in one transaction locks
-- them in the order of its calls; enqueue_many sorts them, so two calls of it never deadlock.

-- A uuid v7: 48 bits of milliseconds, the version, 12 bits of the millisecond's fraction, then random bits. The fraction
-- lets ids grow with time within a millisecond too: new ones go to the end of the index. gen_random_uuid() has the variant
-- right already.
create function @schema@.uuid7_of(tick bigint) returns uuid -- tick: of 1/4096 ms
    language sql volatile
as $$
    select pg_catalog.encode(pg_catalog.int8send((tick operator(pg_catalog.+) ((tick operator(pg_catalog.>>) 12)
               operator(pg_catalog.*) 61440)) operator(pg_catalog.|) 28672)
               operator(pg_catalog.||) pg_catalog.substring(pg_catalog.uuid_send(pg_catalog.gen_random_uuid()), 9), 'hex')::pg_catalog.uuid
$$;
create function @schema@.uuid7(at timestamptz) returns uuid
    language sql volatile
as $$
    select @schema@.uuid7_of((date_part('epoch', at) * 1000000)::bigint * 512 / 125)
$$;

-- Three small functions that others call have no search_path of their own: it would prevent inlining, and cost a
-- hundred microseconds. So every name in them is schema-qualified.

-- The lowest uuid v7 of a point in time: the bound of a partition. There is none before 1970 or after the year 10889.
create function @schema@.uuid_at(at timestamptz) returns uuid
    language sql immutable
as $$
    select (pg_catalog.lpad(pg_catalog.to_hex(least(281474976710655, greatest(0, pg_catalog.floor(extract(epoch from at)
        operator(pg_catalog.*) 1000)))::bigint), 12, '0') operator(pg_catalog.||) '00000000000000000000')::pg_catalog.uuid
$$;

-- The lowest uuid v7 of the ten seconds that an id is of: see attempt.ids.
create function @schema@.ten_seconds_of(id uuid) returns uuid
    language sql immutable
as $$
    select (pg_catalog.lpad(pg_catalog.to_hex(('x' operator(pg_catalog.||) pg_catalog.translate(pg_catalog.left(id::pg_catalog.text, 13), '-', ''))::pg_catalog.bit(48)::pg_catalog.int8
        operator(pg_catalog./) 10000 operator(pg_catalog.*) 10000), 12, '0') operator(pg_catalog.||) '00000000000000000000')::pg_catalog.uuid
$$;

-- A 16-byte digest of a text. Several texts are joined by chr(31): control characters are refused in all of them.
-- Stable, as convert_to is: declared immutable it would not be inlined, and would cost five times as much.
create function @schema@.digest(joined text) returns uuid
    language sql stable
as $$
    select pg_catalog.encode(pg_catalog.substring(pg_catalog.sha256(pg_catalog.convert_to(joined, 'UTF8')), 1, 16), 'hex')::pg_catalog.uuid
$$;

-- The session's tenant, null for none. Nearly always there is none.
create function @schema@.current_tenant() returns uuid
    language plpgsql stable
    set search_path = pg_catalog, pg_temp -- the views call it with the reader's rights, and must not with the reader's path
as $$
declare
    v_text constant text := current_setting('app.current_tenant_id', true);
begin
    if v_text <> '' then
        -- All that the type takes; to try the cast would cost a subtransaction.
        if v_text !~* '^([0-9a-f]{4}(-?[0-9a-f]{4}){7}|\{[0-9a-f]{4}(-?[0-9a-f]{4}){7}\})$' then
            raise exception 'app.current_tenant_id is "%", which is not a uuid', left(v_text, 100) using errcode = 'OB002',
                hint = 'Set it to the uuid of the tenant, or to '''' for none.';
        end if;
        return v_text::uuid;
    end if;
    return null;
end
$$;

-- The doorbell's lock class and channel: one pair per outbox, whatever its schema is called.
create function @schema@.doorbell_class() returns int
    language sql stable
as $$
    select '@schema@.queue'::pg_catalog.regclass::pg_catalog.oid::bigint::bit(32)::int
$$;
create function @schema@.doorbell_channel(doorbell int default 0) returns text
    language sql stable
as $$
    select pg_catalog.concat('outbox_', '@schema@.queue'::pg_catalog.regclass::pg_catalog.oid, '_', doorbell)
$$;

-- Spaces and control characters are listed explicitly below: [[:space:]] depends on the collation.

-- Raises an error that says what is wrong with a message. Called only if the quick test in put or enqueue_many failed,
-- so it may be slow and exact.
create function @schema@.complain(ord int, topic text, namespace text, key text, dedupe_key text, subject text,
    recipient text, correlation_id text, content_type text, headers jsonb, priority int, max_attempts int,
    has_payload boolean) returns void
    language plpgsql
as $$
declare
    at constant text := case when ord is null then '' else 'message ' || ord || ': ' end;
    field record;
    header record;
    v_bytes bigint := 0; -- of the headers
begin
    for field in select * from (values
            ('topic', topic, @topic_min@, @topic_max@, true),
            ('namespace', namespace, @namespace_min@, @namespace_max@, true),
            ('key', key, @key_min@, @key_max@, false),
            ('dedupe_key', dedupe_key, @dedupe_key_min@, @dedupe_key_max@, false),
            ('subject', subject, @subject_min@, @subject_max@, false),
            ('recipient', recipient, @recipient_min@, @recipient_max@, false),
            ('correlation_id', correlation_id, @correlation_id_min@, @correlation_id_max@, false),
            ('content_type', content_type, @content_type_min@, @content_type_max@, false))
            f(name, value, least, most, needed) loop
        if field.value is null then
            if field.needed then
                raise exception '%"%" is missing', at, field.name using errcode = 'OB001',
                    hint = format('Give a %s of %s to %s bytes.', field.name, field.least, field.most);
            end if;
        elsif octet_length(field.value) not between field.least and field.most then
            raise exception '%"%" has % bytes', at, field.name, octet_length(field.value) using errcode = 'OB001',
                hint = format('It takes %s to %s bytes.', field.least, field.most);
        elsif field.value ~ '[\u0001-\u001f\u007f-\u009f]' then
            raise exception '%"%" contains a control character', at, field.name using errcode = 'OB001',
                hint = 'Remove line breaks, tabs and other control characters.';
        elsif field.needed and field.value ~ '[\u0001-\u0020\u007f-\u00a0\u1680\u2000-\u200a\u2028\u2029\u202f\u205f\u3000*?]' then
            raise exception '%"%" is "%"', at, field.name, field.value using errcode = 'OB001',
                hint = 'Topics and namespaces have no spaces and no "*" or "?".';
        end if;
    end loop;
    if not has_payload then
        raise exception '%"payload" is missing', at using errcode = 'OB001',
            hint = case when ord is null then 'Give a payload; JSON null is one: ''null''::jsonb.'
                else 'Give a payload, or payload_base64 with a content_type.' end;
    end if;
    if priority is null or priority not between @priority_min@ and @priority_max@ then
        raise exception '%"priority" is %', at, coalesce(priority::text, 'null') using errcode = 'OB001',
            hint = 'It takes @priority_range@; the highest goes first, 4 is the default.';
    end if;
    if max_attempts not between @max_attempts_min@ and @max_attempts_max@ then
        raise exception '%"max_attempts" is %', at, max_attempts using errcode = 'OB001', hint = 'It takes @max_attempts_range@.';
    end if;
    if headers is not null then
        if jsonb_typeof(headers) <> 'object' then
            raise exception '%"headers" is a JSON %', at, jsonb_typeof(headers) using errcode = 'OB001',
                hint = 'Give a JSON object of strings, e.g. {"traceparent": "00-..."}.';
        end if;
        for header in select h.key, h.value, jsonb_typeof(h.value) as type from jsonb_each(headers) h loop
            if header.key !~ '^[A-Za-z0-9!#$%&''*+.^_`|~-]{@header_name_min@,@header_name_max@}$' then
                raise exception '%the header name "%" is not valid', at, left(header.key, 64) using errcode = 'OB001',
                    hint = 'A name has @header_name_min@ to @header_name_max@ letters, digits or any of !#$%&''*+.^_`|~-';
            elsif header.type <> 'string' then
                raise exception '%the header "%" is a JSON %', at, header.key, header.type using errcode = 'OB001',
                    hint = 'Header values are strings.';
            elsif (header.value #>> '{}') ~ '[\u0001-\u001f\u007f-\u009f]' then
                raise exception '%the header "%" contains a control character', at, header.key using errcode = 'OB001',
                    hint = 'Remove line breaks from the value.';
            end if;
            v_bytes := v_bytes + octet_length(header.key) + octet_length(header.value #>> '{}');
        end loop;
        if v_bytes > @headers_max@ then
            raise exception '%the headers have % bytes', at, v_bytes using errcode = 'OB006',
                hint = 'Their names and values take @headers_range@ together.';
        end if;
    end if;
end
$$;

-- The quick test: true when nothing can be wrong.
create function @schema@.plausible(topic text, namespace text, key text, dedupe_key text, subject text, recipient text,
    correlation_id text, content_type text, headers jsonb, priority int, max_attempts int, has_payload boolean)
    returns boolean
    language sql stable
as $$
    select coalesce(has_payload and octet_length(topic) between @topic_min@ and @topic_max@
            and octet_length(namespace) between @namespace_min@ and @namespace_max@
            and headers is null and priority between @priority_min@ and @priority_max@, false)
        and coalesce(max_attempts between @max_attempts_min@ and @max_attempts_max@, true)
        and coalesce(octet_length(key) between @key_min@ and @key_max@, true)
        and coalesce(octet_length(dedupe_key) between @dedupe_key_min@ and @dedupe_key_max@, true)
        and coalesce(octet_length(subject) between @subject_min@ and @subject_max@, true)
        and coalesce(octet_length(recipient) between @recipient_min@ and @recipient_max@, true)
        and coalesce(octet_length(correlation_id) between @correlation_id_min@ and @correlation_id_max@, true)
        and coalesce(octet_length(content_type) between @content_type_min@ and @content_type_max@, true)
        and concat(topic, namespace) !~ '[\u0001-\u0020\u007f-\u00a0\u1680\u2000-\u200a\u2028\u2029\u202f\u205f\u3000*?]'
        and concat(key, dedupe_key, subject, recipient, correlation_id, content_type) !~ '[\u0001-\u001f\u007f-\u009f]'
$$;

-- Not infinite either: a key would wait forever behind a message that is due at infinity.
create function @schema@.complain_time(ord int) returns void
    language plpgsql
as $$
begin
    raise exception '%"deliver_after" or "expires_at" is before 1970 or after the year 9999',
        case when ord is null then '' else 'message ' || ord || ': ' end
        using errcode = 'OB001', hint = 'Give a moment in between, or leave it out: at once, and never.';
end
$$;

create function @schema@.complain_size(ord int, bytes bigint, most int) returns void
    language plpgsql
as $$
begin
    raise exception '%the payload has % bytes', case when ord is null then '' else 'message ' || ord || ': ' end, bytes
        using errcode = 'OB006', hint = format('It takes %s bytes at most (max_payload of the namespace). Store the '
            'content elsewhere and send a reference, or raise the limit.', most);
end
$$;

-- How many bytes a payload has for its receivers. A zstd frame must declare its size in its header, and must not need a
-- dictionary. Readers check what follows the header. https://www.rfc-editor.org/rfc/rfc8878#section-3.1.1.1
create function @schema@.content_size(ord int, body bytea, encoding text) returns bigint
    language plpgsql
as $$
declare
    at constant text := case when ord is null then '' else 'message ' || ord || ': ' end;
    v_flags int;
    v_start int;
    v_width int := 0;
    v_size bigint;
begin
    if encoding <> 'zstd' then
        raise exception '%"encoding" is "%"', at, left(encoding, 64) using errcode = 'OB001',
            hint = 'It takes zstd, or null for bytes as they are.';
    end if;
    if octet_length(body) > 5 and substring(body from 1 for 4) = '\x28b52ffd' then
        v_flags := get_byte(body, 4);
        v_start := case v_flags & 32 when 0 then 6 else 5 end;
        v_width := case v_flags >> 6 when 0 then (v_flags & 32) / 32 when 1 then 2 when 2 then 4 else 8 end;
    end if;
    if v_width = 0 or v_flags & 3 <> 0 or octet_length(body) < v_start + v_width then
        raise exception '%the payload is no zstd frame that tells its size', at using errcode = 'OB001',
            hint = 'Compress it in one call, with the content size in the frame header and without a dictionary.';
    end if;
    v_size := (select bit_or(get_byte(body, v_start + i)::bigint << 8 * i) from generate_series(0, v_width - 1) i);
    return case when v_size < 0 then 9223372036854775807 -- as large, or larger
                else greatest(v_size + case v_width when 2 then 256 else 0 end, octet_length(body)) end;
end
$$;

-- The tenant that a message gets: the session's, if it has one, and no other.
create function @schema@.tenant_for(given uuid) returns uuid
    language plpgsql stable
as $$
declare
    session uuid;
begin
    if coalesce(current_setting('app.current_tenant_id', true), '') = '' then
        return given;
    end if;
    session := @schema@.current_tenant();
    if given is null or given = session then
        return session;
    end if;
    raise exception 'tenant_id % is not the session''s tenant %', given, session using errcode = 'OB002',
        hint = 'Leave tenant_id out, or set app.current_tenant_id to that tenant.';
end
$$;

-- Settings, pauses and hooks apply to all tenants.
create function @schema@.check_no_tenant() returns void
    language plpgsql stable
as $$
begin
    if @schema@.current_tenant() is not null then
        raise exception 'a session with a tenant does not change what all tenants share' using errcode = 'OB002',
            hint = 'Reset app.current_tenant_id first.';
    end if;
end
$$;

-- M5, and no tenant ever learns of another's messages through a dedupe key.
create function @schema@.complain_dedupe(ord int, dedupe_key text, tenant uuid, other boolean) returns void
    language plpgsql
as $$
declare
    at constant text := case when ord is null then '' else 'message ' || ord || ': ' end;
begin
    if other then
        raise exception '%the dedupe key "%" belongs to a message of another tenant', at, left(dedupe_key, 64)
            using errcode = 'OB003', hint = 'Begin dedupe keys with the tenant''s uuid and a slash.';
    end if;
    raise exception '%the dedupe key "%" does not begin with "%/"', at, left(dedupe_key, 64), tenant using errcode = 'OB003',
        hint = format('Begin it with the tenant''s uuid and a slash, or let an operator run: select %I.configure(<namespace>, '
            '''tenant_prefix'', ''off'').', @schema_text@);
end
$$;

-- The number of a lane is a digest of its names.
create function @schema@.lane_id(namespace text, topic text) returns bigint
    language sql immutable
as $$
    select ('x' || encode(substring(uuid_send(@schema@.digest(namespace || chr(31) || topic)) from 1 for 8), 'hex'))
               ::bit(64)::bigint
$$;

-- Converts a name, or a pattern with * and ?, to a LIKE pattern. No name has these two characters.
create function @schema@.like_of(pattern text) returns text
    language sql immutable
as $$
    select pg_catalog.translate(pg_catalog.regexp_replace(pattern, E'([\\\\%_])', E'\\\\\\1', 'g'), '*?', '%_')
$$;

-- A name that an operator gives must be valid. Namespace and topic may be patterns.
create function @schema@.check_names(namespace text, topic text, sink text) returns void
    language plpgsql
as $$
declare
    field record;
begin
    for field in select * from (values ('namespace', namespace, @namespace_min@, @namespace_max@),
                                           ('topic', topic, @topic_min@, @topic_max@)) f(name, value, least, most)
                  where value is not null loop
        if octet_length(field.value) not between field.least and field.most then
            raise exception '"%" has % bytes', field.name, octet_length(field.value) using errcode = 'OB001',
                hint = format('It takes %s to %s bytes.', field.least, field.most);
        elsif field.value ~ '[\u0001-\u0020\u007f-\u00a0\u1680\u2000-\u200a\u2028\u2029\u202f\u205f\u3000]' then
            raise exception '"%" is "%"', field.name, field.value using errcode = 'OB001',
                hint = 'Topics and namespaces have no spaces and no control characters.';
        elsif field.value ~ '[*?]' and position(E'\\' in field.value) > 0 then
            raise exception '"%" is "%"', field.name, field.value using errcode = 'OB001',
                hint = 'A pattern may contain * and ?, but no backslash.';
        end if;
    end loop;
    if sink !~ '^[A-Za-z0-9_.-]{@sink_name_min@,@sink_name_max@}$' then
        raise exception 'no sink is named "%"', left(sink, 64) using errcode = 'OB001',
            hint = 'A name has @sink_name_min@ to @sink_name_max@ letters, digits, "-", "_" and ".".';
    end if;
end
$$;

-- What applies in a namespace.
create function @schema@.settings_of(namespace text, out max_payload int, out max_attempts int, out log boolean,
    out rings boolean, out tenant_prefix boolean, out dedupe_by_topic boolean, out order_by_topic boolean)
    language sql stable
as $$
    select coalesce(n.max_payload, s.max_payload), coalesce(n.max_attempts, s.max_attempts),
           coalesce(n.lane, s.lane) = 'log', coalesce(n.doorbell, s.doorbell), coalesce(n.tenant_prefix, s.tenant_prefix),
           coalesce(n.dedupe_scope, s.dedupe_scope) = 'topic', coalesce(n.order_scope, s.order_scope) = 'topic'
      from @schema@.namespace s left join @schema@.namespace n on n.name = settings_of.namespace where s.name = '*'
$$;

-- A lane with its settings; makes the lane's row if there is none. The settings go into the row only if no configure can
-- miss it: configure locks the row '*' before it looks at the lanes, and who gets that lock here makes it wait. Nobody waits
-- for configure: without the lock, and with a snapshot that may be old, the row has no settings, until a later call or
-- configure itself puts them there.
create function @schema@.lane_for(namespace text, topic text) returns @schema@.lane
    language plpgsql
as $$
declare
    l @schema@.lane;
    v_known boolean;
    v_keep boolean := false;
begin
    if current_setting('transaction_isolation') = 'read committed' then
        perform from @schema@.namespace n where n.name = '*' for share skip locked;
        v_keep := found;
    end if;
    select * into l from @schema@.lane x where x.namespace = lane_for.namespace and x.topic = lane_for.topic;
    v_known := found;
    if l.max_payload is not null then
        return l;
    elsif not v_known then
        l.id := @schema@.lane_id(namespace, topic);
        l.namespace := namespace;
        l.topic := topic;
        l.doorbell := 0;
        l.created_at := clock_timestamp();
        if not v_keep then
            insert into @schema@.lane select l.*;
        end if;
    end if;
    select s.* into l.max_payload, l.max_attempts, l.log, l.rings, l.tenant_prefix, l.dedupe_by_topic, l.order_by_topic
      from @schema@.settings_of(namespace) s;
    if v_keep and not v_known then
        insert into @schema@.lane select l.*;
    elsif v_keep then
        update @schema@.lane x
           set max_payload = l.max_payload, max_attempts = l.max_attempts, log = l.log, rings = l.rings,
               tenant_prefix = l.tenant_prefix, dedupe_by_topic = l.dedupe_by_topic, order_by_topic = l.order_by_topic
         where x.ctid = any (array(select y.ctid from @schema@.lane y
                 where y.namespace = lane_for.namespace and y.topic = lane_for.topic for update skip locked));
    end if;
    return l;
end
$$;

-- Whether to ring: no relay is busy, and one listens (listeners hold number -1 shared; the lock is tried and released in one
-- expression, so no producer meets another's try for long). Called last, after the writes: see docs/doorbell.md. Names are
-- qualified so that it can be inlined, see uuid_at.
create function @schema@.should_ring(doorbell int) returns boolean
    language sql volatile
as $$
    select case when not pg_catalog.pg_try_advisory_xact_lock_shared(
                    '@schema@.queue'::pg_catalog.regclass::pg_catalog.oid::bigint::bit(32)::int, doorbell) then false
                when pg_catalog.pg_try_advisory_lock(
                    '@schema@.queue'::pg_catalog.regclass::pg_catalog.oid::bigint::bit(32)::int, -1)
                then not pg_catalog.pg_advisory_unlock(
                    '@schema@.queue'::pg_catalog.regclass::pg_catalog.oid::bigint::bit(32)::int, -1)
                else doorbell is not null end
$$;

-- One message, whatever it has. Runs with the rights of the function that calls it.
create function @schema@.put(p_topic text, p_payload jsonb, p_body bytea, p_content_type text, p_key text,
    p_dedupe_key text, p_tenant_id uuid, p_namespace text, p_subject text, p_recipient text, p_headers jsonb,
    p_priority int, p_deliver_after timestamptz, p_expires_at timestamptz, p_max_attempts int, p_correlation_id text,
    p_encoding text)
    returns @schema@.receipt
    language plpgsql
    set search_path = pg_catalog, pg_temp
as $$
declare
    v_now constant timestamptz := clock_timestamp();
    v_id constant uuid := @schema@.uuid7(v_now);
    v_tenant uuid := p_tenant_id;
    v_bytes bigint;
    l @schema@.lane;
    v_digest uuid;
    v_stream uuid;
    v_owner uuid;
    v_sid bigint;
    v_seq bigint;
    v_first uuid;
    v_xid xid8;
    v_ord xid8; -- null: to the queue
begin
    if not @schema@.plausible(p_topic, p_namespace, p_key, p_dedupe_key, p_subject, p_recipient, p_correlation_id,
            p_content_type, p_headers, p_priority, p_max_attempts, p_payload is not null or p_body is not null) then
        perform @schema@.complain(null, p_topic, p_namespace, p_key, p_dedupe_key, p_subject, p_recipient,
            p_correlation_id, p_content_type, p_headers, p_priority, p_max_attempts,
            p_payload is not null or p_body is not null);
    end if;
    if current_setting('app.current_tenant_id', true) <> '' then
        v_tenant := @schema@.tenant_for(p_tenant_id);
    end if;

    select * into l from @schema@.lane x where x.namespace = p_namespace and x.topic = p_topic; -- any of them
    if l.max_payload is null then
        l := @schema@.lane_for(p_namespace, p_topic);
    end if;

    if p_deliver_after not between '@moment_min_at@' and '@moment_max_at@'
            or p_expires_at not between '@moment_min_at@' and '@moment_max_at@' then
        perform @schema@.complain_time(null);
    end if;
    v_bytes := case when p_encoding is null then coalesce(octet_length(p_body), octet_length(p_payload::text))
        else @schema@.content_size(null, p_body, p_encoding) end;
    if v_bytes > l.max_payload then
        perform @schema@.complain_size(null, v_bytes, l.max_payload);
    end if;

    if p_dedupe_key is not null then
        if v_tenant is not null and l.tenant_prefix and not starts_with(p_dedupe_key, v_tenant::text || '/') then
            perform @schema@.complain_dedupe(null, p_dedupe_key, v_tenant, false);
        end if;
        v_digest := @schema@.digest(p_namespace || chr(31) || case when l.dedupe_by_topic then p_topic else '' end || chr(31) || p_dedupe_key);
        insert into @schema@.dedupe (digest, id, tenant_id) values (v_digest, v_id, v_tenant)
            on conflict (digest) do nothing;
        if not found then
            select d.id, d.seq, d.tenant_id into strict v_first, v_seq, v_owner
              from @schema@.dedupe d where d.digest = v_digest;
            if v_owner is distinct from v_tenant then
                perform @schema@.complain_dedupe(null, p_dedupe_key, v_tenant, true);
            end if;
            return row (v_first, false, v_seq)::@schema@.receipt;
        end if;
    end if;

    v_xid := pg_current_xact_id();
    if p_key is not null then
        -- The row stays locked until commit: that is what makes seq order commit order. ord is the key's clock: a transaction
        -- that is older than the last one that used the key takes its place behind that one. A key that used the log
        -- once stays there, or a switch of the setting would break its order.
        v_stream := @schema@.digest(p_namespace || chr(31) || case when l.order_by_topic then p_topic else '' end || chr(31)
            || coalesce(v_tenant::text, '') || chr(31) || p_key);
        update @schema@.stream s
           set seq = s.seq + 1, ord = case when l.log or s.ord is not null then greatest(s.ord, v_xid) end
         where s.digest = v_stream
        returning s.sid, s.seq, s.ord into v_sid, v_seq, v_ord;
        if not found then
            insert into @schema@.stream as s (digest, seq, ord, tenant_id, namespace, topic, key)
            values (v_stream, 1, case when l.log then v_xid end, v_tenant, p_namespace,
                case when l.order_by_topic then p_topic else '' end, p_key)
                on conflict (digest) do update
                   set seq = s.seq + 1, ord = case when l.log or s.ord is not null then greatest(s.ord, v_xid) end
            returning s.sid, s.seq, s.ord into v_sid, v_seq, v_ord;
        end if;
        if v_digest is not null then
            update @schema@.dedupe d set seq = v_seq where d.digest = v_digest;
        end if;
    elsif l.log and p_priority = 4 and p_deliver_after is null then
        v_ord := v_xid;
    end if;

    -- pos is drawn after the transaction got its number: see rebase in 007_log.sql.
    insert into @schema@.message (id, created_at, ord, pos, lane, seq, sid, xid, due, expires_at, tenant_id, bytes, shard,
        priority, max_attempts, namespace, topic, key, dedupe_key, subject, recipient, correlation_id, content_type, headers,
        payload, body, encoding)
    values (v_id, v_now, v_ord, case when v_ord is not null then nextval('@schema@.pos') end, l.id, v_seq, v_sid,
        case when v_ord is distinct from v_xid then v_xid end, p_deliver_after, p_expires_at, v_tenant, v_bytes,
        case when v_ord is not null then coalesce(v_sid % 8, -1) end, p_priority, p_max_attempts, p_namespace, p_topic, p_key,
        p_dedupe_key, p_subject, p_recipient, p_correlation_id, p_content_type, p_headers, p_payload, p_body, p_encoding);
    if v_ord is null then
        insert into @schema@.queue (id, lane, due, sid, seq, expires_at, tenant_id, bytes, max_attempts, prio, shard)
        values (v_id, l.id, least(coalesce(p_deliver_after, v_now), p_expires_at), v_sid, v_seq, p_expires_at, v_tenant,
            v_bytes, coalesce(p_max_attempts, l.max_attempts), p_priority, coalesce(v_sid % 16, -1));
    end if;

    if l.rings and @schema@.should_ring(l.doorbell) then
        perform @schema@.ring(l.doorbell);
    end if;
    return row (v_id, true, v_seq)::@schema@.receipt;
end
$$;

-- `set outbox.doorbell = off` keeps a session from ringing: NOTIFY and PREPARE TRANSACTION exclude each other.
create function @schema@.ring(doorbell int) returns void
    language plpgsql
as $$
begin
    if coalesce(pg_catalog.current_setting('outbox.doorbell', true), '') operator(pg_catalog.<>) 'off' then
        perform pg_catalog.pg_notify(@schema@.doorbell_channel(doorbell), '');
    end if;
end
$$;

-- The short way is for the common call, and writes what put would write. Names that have a lane are valid.
-- It is made for one call a transaction. There PostgreSQL prepares anew every expression that a call comes to, and every function
-- and operator in it: so there are few, and those of the rarer calls are in branches of their own. A function with settings
-- costs as much as half an insert, so enqueue has none. Instead every name and operator in it, and in what it calls, is
-- qualified (a planted one is found by tests/system/test_planted_names.py), types of variables too; row security that a session
-- switched off is left to put.
create function @schema@.enqueue(topic text, payload jsonb, key text default null, dedupe_key text default null,
    tenant_id uuid default null, namespace text default 'default', subject text default null,
    recipient text default null, headers jsonb default null, priority int default 4,
    deliver_after timestamptz default null, expires_at timestamptz default null, max_attempts int default null,
    correlation_id text default null)
    returns @schema@.receipt
    language plpgsql security definer
as $$
declare
    v_short boolean := (dedupe_key is null or key is null and tenant_id is null) and headers is null and deliver_after is null and expires_at is null
        and max_attempts is null and priority operator(pg_catalog.=) 4
        and coalesce(pg_catalog.current_setting('app.current_tenant_id', true), '') operator(pg_catalog.=) ''
        and pg_catalog.current_setting('row_security') operator(pg_catalog.=) 'on';
    v_texts pg_catalog.text;
    v_lane bigint;
    v_doorbell int;
    v_by_topic boolean;
    v_bytes int;
    v_digest pg_catalog.uuid;
    v_sid bigint;
    v_seq bigint;
    v_ord pg_catalog.xid8;
    v_xid pg_catalog.xid8;
    v_pos bigint;
    v_now pg_catalog.timestamptz;
    v_tick bigint;
    v_id pg_catalog.uuid;
begin
    if v_short and coalesce(key, dedupe_key, subject, recipient, correlation_id) is not null then
        -- All together no longer than the one with the lowest limit may be, and none is empty.
        v_texts := pg_catalog.concat(key, dedupe_key, subject, recipient, correlation_id);
        v_short := pg_catalog.octet_length(v_texts) operator(pg_catalog.<=) @correlation_id_max@
            and v_texts operator(pg_catalog.!~) E'[\\u0001-\\u001f\\u007f-\\u009f]'
            and ('' operator(pg_catalog.=) any (array[key, dedupe_key, subject, recipient, correlation_id])) is not true;
    end if;
    if v_short then
        v_bytes := pg_catalog.octet_length(payload::pg_catalog.text);
        select l.id, case when l.rings then l.doorbell end, case when enqueue.key is null then l.dedupe_by_topic else l.order_by_topic end
          into v_lane, v_doorbell, v_by_topic
          from @schema@.lane l
         where l.namespace operator(pg_catalog.=) enqueue.namespace and l.topic operator(pg_catalog.=) enqueue.topic and l.log
           and l.max_payload operator(pg_catalog.>=) v_bytes;
    end if;
    if v_lane is not null then
        v_now := pg_catalog.clock_timestamp();
        v_tick := (((pg_catalog.date_part('epoch', v_now) operator(pg_catalog.*) 1000000)::bigint) operator(pg_catalog.*) 512)
            operator(pg_catalog./) 125;
        v_id := @schema@.uuid7_of(v_tick);
        v_xid := pg_catalog.pg_current_xact_id();
        if key is not null then
            v_digest := @schema@.digest(pg_catalog.concat(namespace, pg_catalog.chr(31), case when v_by_topic then topic end,
                pg_catalog.chr(31), tenant_id, pg_catalog.chr(31), key));
            update @schema@.stream s set seq = s.seq operator(pg_catalog.+) 1, ord = greatest(s.ord, v_xid)
             where s.digest operator(pg_catalog.=) v_digest
            returning s.sid, s.seq, s.ord into v_sid, v_seq, v_ord;
        elsif dedupe_key is null then
            v_ord := v_xid;
        else
            v_digest := @schema@.digest(pg_catalog.concat(namespace, pg_catalog.chr(31), case when v_by_topic then topic end,
                pg_catalog.chr(31), dedupe_key));
            insert into @schema@.dedupe (digest, id) values (v_digest, v_id) on conflict (digest) do nothing
            returning v_xid into v_ord;
        end if;
    end if;
    if v_ord is null then -- a new key, too, and a known dedupe key
        return @schema@.put(topic, payload, null, null, key, dedupe_key, tenant_id, namespace, subject, recipient, headers,
            priority, deliver_after, expires_at, max_attempts, correlation_id, null);
    end if;

    v_pos := pg_catalog.nextval('@schema@.pos');
    if v_texts is null then
        insert into @schema@.message (id, created_at, ord, pos, lane, tenant_id, bytes, shard, priority, namespace, topic, payload)
        values (v_id, v_now, v_ord, v_pos, v_lane, enqueue.tenant_id, v_bytes, -1, 4, enqueue.namespace, enqueue.topic,
            enqueue.payload);
    else
        insert into @schema@.message (id, created_at, ord, pos, lane, seq, sid, xid, tenant_id, bytes, shard, priority, namespace,
            topic, key, dedupe_key, subject, recipient, correlation_id, payload)
        values (v_id, v_now, v_ord, v_pos, v_lane, v_seq, v_sid, case when v_xid operator(pg_catalog.<>) v_ord then v_xid end,
            enqueue.tenant_id, v_bytes, coalesce(v_sid operator(pg_catalog.%) 8, -1), 4, enqueue.namespace, enqueue.topic,
            enqueue.key, enqueue.dedupe_key, enqueue.subject, enqueue.recipient, enqueue.correlation_id, enqueue.payload);
    end if;
    if @schema@.should_ring(v_doorbell) then
        perform @schema@.ring(v_doorbell);
    end if;
    return row (v_id, true, v_seq)::@schema@.receipt;
end
$$;

create function @schema@.enqueue_bytes(topic text, payload bytea,
    content_type text default 'application/octet-stream', key text default null, dedupe_key text default null,
    tenant_id uuid default null, namespace text default 'default', subject text default null,
    recipient text default null, headers jsonb default null, priority int default 4,
    deliver_after timestamptz default null, expires_at timestamptz default null, max_attempts int default null,
    correlation_id text default null, encoding text default null)
    returns @schema@.receipt
    language plpgsql security definer
as $$
begin
    if content_type is null and encoding is null then -- JSON that its producer compressed has no content type
        raise exception '"content_type" is missing' using errcode = 'OB001',
            hint = 'Name the type of the bytes, e.g. application/octet-stream.';
    end if;
    return @schema@.put(topic, null, payload, content_type, key, dedupe_key, tenant_id, namespace, subject, recipient,
        headers, priority, deliver_after, expires_at, max_attempts, correlation_id, encoding);
end
$$;

-- Many messages in one round trip: all or nothing. The array's objects have the argument names of enqueue; bytes come as
-- "payload_base64" with a "content_type", or with an "encoding" as in enqueue_bytes. Locks are taken in sorted order: first all dedupe keys, then all keys.
create type @schema@.item as (ord int, id uuid, topic text, payload jsonb, body bytea, content_type text, key text,
    dedupe_key text, tenant_id uuid, namespace text, subject text, recipient text, headers jsonb, priority int,
    deliver_after timestamptz, expires_at timestamptz, max_attempts int, correlation_id text, dedupe_digest uuid,
    stream_digest uuid, order_topic text, lane bigint, doorbell int, prefix boolean, max_payload int, encoding text,
    budget int, log boolean);

-- Reads the array; the settings of each namespace and the lanes known so far come along.
create function @schema@.read_items(messages jsonb, v_now timestamptz) returns @schema@.item[]
    language sql
as $$
    select array_agg(row (o.ordinality, @schema@.uuid7(v_now), m.topic, m.payload, decode(m.payload_base64, 'base64'),
               m.content_type, m.key, m.dedupe_key, m.tenant, m.namespace, m.subject, m.recipient, m.headers,
               coalesce(m.priority, 4), m.deliver_after, m.expires_at,
               m.max_attempts, m.correlation_id,
               @schema@.digest(m.namespace || chr(31) || case coalesce(n.dedupe_scope, s.dedupe_scope) when 'topic'
                   then m.topic else '' end || chr(31) || m.dedupe_key),
               @schema@.digest(m.namespace || chr(31) || t.order_topic || chr(31) || coalesce(m.tenant::text, '')
                   || chr(31) || m.key),
               t.order_topic, l.id, case when coalesce(n.doorbell, s.doorbell) then coalesce(l.doorbell, 0) end,
               coalesce(n.tenant_prefix, s.tenant_prefix),
               coalesce(n.max_payload, s.max_payload), m.encoding,
               coalesce(m.max_attempts, n.max_attempts, s.max_attempts),
               coalesce(n.lane, s.lane) = 'log')::@schema@.item order by o.ordinality)
      from jsonb_array_elements(messages) with ordinality o(value, ordinality)
     cross join lateral (select r.*, coalesce(r.name_space, 'default') as namespace, @schema@.tenant_for(r.tenant_id) as tenant
              from (select x.*, o.value ->> 'namespace' as name_space,
                           -- JSON null is a payload, unless there are bytes.
                           case when x.payload_base64 is null then o.value -> 'payload'
                                else nullif(o.value -> 'payload', 'null') end as payload
                      from jsonb_to_record(o.value) as x(topic text, payload_base64 text, content_type text, key text,
                           dedupe_key text, tenant_id uuid, subject text, recipient text, headers jsonb, priority int,
                           deliver_after timestamptz, expires_at timestamptz, max_attempts int, correlation_id text,
                           encoding text)) r) m
      join @schema@.namespace s on s.name = '*'
      left join @schema@.namespace n on n.name = m.namespace
     cross join lateral (select case coalesce(n.order_scope, s.order_scope) when 'topic' then m.topic else '' end as order_topic) t
      left join lateral (select x.id, x.doorbell from @schema@.lane x
                          where x.namespace = m.namespace and x.topic = m.topic limit 1) l on true
$$;

-- Called if the array could not be read: reports which message is at fault.
create function @schema@.blame_item(messages jsonb, v_now timestamptz) returns void
    language plpgsql
as $$
declare
    o record;
    v_hint text;
begin
    for o in select * from jsonb_array_elements(messages) with ordinality o(value, ordinality) order by ordinality loop
        begin
            perform @schema@.read_items(jsonb_build_array(o.value), v_now);
        exception
            when data_exception then
                raise exception 'message %: %', o.ordinality, sqlerrm using errcode = 'OB001',
                    hint = 'The fields have the types of the arguments of enqueue; bytes are base64.';
            when sqlstate 'OB002' then
                get stacked diagnostics v_hint = pg_exception_hint;
                raise exception 'message %: %', o.ordinality, sqlerrm using errcode = 'OB002', hint = v_hint;
        end;
    end loop;
end
$$;

create function @schema@.check_items(messages jsonb, items @schema@.item[]) returns void
    language plpgsql
as $$
declare
    bad record;
begin
    for bad in select o.ordinality, k.name from jsonb_array_elements(messages) with ordinality o(value, ordinality),
                      jsonb_object_keys(o.value) k(name)
                where k.name <> all ('{topic,payload,payload_base64,content_type,key,dedupe_key,tenant_id,namespace,subject,recipient,headers,priority,deliver_after,expires_at,max_attempts,correlation_id,encoding}'::text[])
                order by 1 limit 1 loop
        raise exception 'message %: unknown field "%"', bad.ordinality, bad.name using errcode = 'OB001',
            hint = 'The fields are the arguments of enqueue, or payload_base64 and content_type for bytes.';
    end loop;
    perform @schema@.complain(i.ord, i.topic, i.namespace, i.key, i.dedupe_key, i.subject, i.recipient, i.correlation_id,
            i.content_type, i.headers, i.priority, i.max_attempts, i.payload is not null or i.body is not null)
       from unnest(items) i
      where not @schema@.plausible(i.topic, i.namespace, i.key, i.dedupe_key, i.subject, i.recipient, i.correlation_id,
            i.content_type, i.headers, i.priority, i.max_attempts, i.payload is not null or i.body is not null);
    for bad in select i.ord from unnest(items) i
                where (i.body is not null) <> (coalesce(i.content_type, i.encoding) is not null)
                   or (i.body is not null and i.payload is not null) order by 1 limit 1 loop
        raise exception 'message %: "payload" is JSON, "payload_base64" is bytes with a "content_type"', bad.ord
            using errcode = 'OB001', hint = 'Give one of the two.';
    end loop;
    perform @schema@.complain_time(i.ord) from unnest(items) i
      where i.deliver_after not between '@moment_min_at@' and '@moment_max_at@'
         or i.expires_at not between '@moment_min_at@' and '@moment_max_at@';
    perform @schema@.complain_size(i.ord, b.bytes, i.max_payload)
       from unnest(items) i,
            lateral (select case when i.encoding is null then coalesce(octet_length(i.body), octet_length(i.payload::text))
                                 else @schema@.content_size(i.ord, i.body, i.encoding) end as bytes) b
      where b.bytes > i.max_payload;
    perform @schema@.complain_dedupe(i.ord, i.dedupe_key, i.tenant_id, false) from unnest(items) i
      where i.prefix and not starts_with(i.dedupe_key, i.tenant_id::text || '/');
end
$$;

create function @schema@.enqueue_many(messages jsonb)
    returns table (ord int, id uuid, created boolean, seq bigint)
    language plpgsql security definer
    set search_path = pg_catalog, pg_temp
    set jit = off
as $$
#variable_conflict use_column
declare
    v_now constant timestamptz := clock_timestamp();
    v_items @schema@.item[];
    v_dedupes boolean;
    v_doorbell int;
    v_xid xid8;
    v_sids bigint[] := '{}';
    v_seqs bigint[] := '{}';
    v_ords xid8[]; -- null: to the queue
    v_bytes int[];
begin
    if jsonb_typeof(messages) is distinct from 'array' or exists (select from jsonb_array_elements(messages) e
            where jsonb_typeof(e) <> 'object') then
        raise exception '"messages" is not a JSON array of objects' using errcode = 'OB001',
            hint = '[{"topic": "orders", "payload": {"id": 1}}, ...]';
    elsif jsonb_array_length(messages) > @enqueue_many_max@ then
        raise exception 'there are % messages', jsonb_array_length(messages) using errcode = 'OB001',
            hint = 'One call takes @enqueue_many_max@ at most.';
    end if;
    begin
        v_items := @schema@.read_items(messages, v_now);
    exception when data_exception or sqlstate 'OB002' then
        perform @schema@.blame_item(messages, v_now);
        raise;
    end;
    perform @schema@.check_items(messages, v_items);
    if exists (select from unnest(v_items) i where i.lane is null) then
        perform @schema@.lane_for(n.namespace, n.topic)
           from (select distinct i.namespace, i.topic from unnest(v_items) i where i.lane is null) n;
        v_items := @schema@.read_items(messages, v_now);
    end if;

    v_dedupes := exists (select from unnest(v_items) i where i.dedupe_digest is not null);
    if v_dedupes then
        insert into @schema@.dedupe (digest, id, tenant_id)
        select distinct on (i.dedupe_digest) i.dedupe_digest, i.id, i.tenant_id
          from unnest(v_items) i where i.dedupe_digest is not null order by i.dedupe_digest, i.ord
            on conflict (digest) do nothing;
        perform @schema@.complain_dedupe(i.ord, i.dedupe_key, i.tenant_id, true)
           from unnest(v_items) i join @schema@.dedupe d on d.digest = i.dedupe_digest
          where d.tenant_id is distinct from i.tenant_id;
        -- From here on only the new ones have an id; the others are looked up at the end.
        v_items := array(select case when d.id <> i.id then row (i.ord, null, i.topic, null, null, null, i.key, null, null,
                   null, null, null, null, null, null, null, null, null, i.dedupe_digest, null, null, null, null, null,
                   null, null, null, null)::@schema@.item else i end
              from unnest(v_items) i left join @schema@.dedupe d on d.digest = i.dedupe_digest order by i.ord);
    end if;

    if exists (select from unnest(v_items) i where i.id is not null) then
        v_xid := pg_current_xact_id();
        with bumped as ( -- as in put
            insert into @schema@.stream as s (digest, seq, ord, tenant_id, namespace, topic, key)
            select i.stream_digest, count(*), case when bool_or(i.log) then v_xid end, (array_agg(i.tenant_id))[1],
                   min(i.namespace), min(i.order_topic), min(i.key)
              from unnest(v_items) i where i.stream_digest is not null
             group by i.stream_digest order by i.stream_digest
                on conflict (digest) do update
                   set seq = s.seq + excluded.seq,
                       ord = case when coalesce(excluded.ord, s.ord) is not null then greatest(s.ord, v_xid) end
            returning s.digest, s.sid, s.seq, s.ord
        )
        select array_agg(b.sid order by i.ord), array_agg(b.seq - i.after order by i.ord),
               array_agg(case when i.stream_digest is not null then b.ord when i.keyless then v_xid end order by i.ord),
               array_agg(i.bytes order by i.ord)
          into v_sids, v_seqs, v_ords, v_bytes
          from (select i.ord, i.stream_digest, i.log and i.priority = 4 and i.deliver_after is null as keyless,
                       count(*) over (partition by i.stream_digest order by i.ord desc) - 1 as after,
                       case when i.encoding is null then coalesce(octet_length(i.body), octet_length(i.payload::text))
                            else @schema@.content_size(i.ord, i.body, i.encoding) end as bytes
                  from unnest(v_items) i) i
          left join bumped b on b.digest = i.stream_digest;

        insert into @schema@.message (id, created_at, ord, pos, lane, seq, sid, xid, due, expires_at, tenant_id, bytes, shard,
            priority, max_attempts, namespace, topic, key, dedupe_key, subject, recipient, correlation_id, content_type,
            headers, payload, body, encoding)
        select i.id, v_now, v_ords[i.ord], case when v_ords[i.ord] is not null then nextval('@schema@.pos') end, i.lane,
               v_seqs[i.ord], v_sids[i.ord], case when v_ords[i.ord] is distinct from v_xid then v_xid end, i.deliver_after, i.expires_at,
               i.tenant_id, v_bytes[i.ord], case when v_ords[i.ord] is not null then coalesce(v_sids[i.ord] % 8, -1) end,
               i.priority, i.max_attempts, i.namespace, i.topic, i.key, i.dedupe_key, i.subject, i.recipient,
               i.correlation_id, i.content_type, i.headers, i.payload, i.body, i.encoding
          from unnest(v_items) i where i.id is not null;
        insert into @schema@.queue (id, lane, due, sid, seq, expires_at, tenant_id, bytes, max_attempts, prio, shard)
        select i.id, i.lane, least(coalesce(i.deliver_after, v_now), i.expires_at), v_sids[i.ord], v_seqs[i.ord],
               i.expires_at, i.tenant_id, v_bytes[i.ord], i.budget, i.priority, coalesce(v_sids[i.ord] % 16, -1)
          from unnest(v_items) i where i.id is not null and v_ords[i.ord] is null;
        if v_dedupes then
            update @schema@.dedupe d set seq = v_seqs[i.ord]
              from unnest(v_items) i where d.digest = i.dedupe_digest and i.stream_digest is not null;
        end if;
    end if;

    for v_doorbell in select distinct i.doorbell from unnest(v_items) i where i.id is not null and i.doorbell is not null loop
        if @schema@.should_ring(v_doorbell) then
            perform @schema@.ring(v_doorbell);
        end if;
    end loop;
    return query
        select i.ord, coalesce(i.id, d.id), i.id is not null, case when i.id is null then d.seq else v_seqs[i.ord] end
          from unnest(v_items) i left join @schema@.dedupe d on i.id is null and d.digest = i.dedupe_digest
         order by i.ord;
end
$$;
