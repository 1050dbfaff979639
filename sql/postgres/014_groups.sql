-- Groups of failures: dead letters and messages that wait after a failure, by fingerprint.
--
-- A fingerprint is the code of a failure and its text without what differs from message to message: ids, numbers, addresses, times,
-- quoted texts. It is computed once, when the failure is settled, and is a column of the row that is written anyway (queue, dead).
-- There is no table of groups. So no settle waits for another that has the same failure, a delivery that succeeds costs nothing,
-- no text outlives the messages it came from, and texts made to differ fill no table: what is bounded is how many groups are
-- looked for when somebody reads them.
--
-- src/core/fingerprint.c does the same for SQLite; tests/contract/groups.c has the texts that must be alike and those that must not.

-- What is the same in all failures of a kind. Only the beginning counts: what follows is often an excerpt of an answer.
create function @schema@.failure_shape(error text) returns text
    language sql immutable
as $$
    select left(regexp_replace(regexp_replace(regexp_replace(regexp_replace(lower(left(error, 500) collate "C"),
        '"[^"]*"|`[^`]*`|(?<![a-z0-9])''[^'']*''', '#', 'g'),                 -- quoted
        '[][a-z0-9_.:@/+%-]*[0-9@][][a-z0-9_.:@/+%-]*', '#', 'g'),                -- words with a digit, addresses
        '[ \t\r\n\f\v,;]+', ' ', 'g'), '#( #)+', '#', 'g'), 200)
$$;

create function @schema@.fingerprint(code text, error text) returns bigint
    language sql immutable
as $$
    select ('x' || left(md5(coalesce(left(code, @code_max@), '') || e'\n' || coalesce(@schema@.failure_shape(error), '')), 16))::bit(64)::bigint
$$;

-- Those of many failures. Most failures of a batch are alike, so the last one is remembered.
create function @schema@.fingerprints(codes text[], errors text[]) returns bigint[]
    language plpgsql
as $$
declare
    r record;
    v_code text;
    v_error text;
    v_print bigint;
    v_prints bigint[] := '{}';
begin
    for r in select t.code, t.error from unnest(codes, errors) t(code, error) loop
        if v_print is null or r.code is distinct from v_code or r.error is distinct from v_error then
            v_print := @schema@.fingerprint(r.code, r.error);
            v_code := r.code;
            v_error := r.error;
        end if;
        v_prints := v_prints || v_print;
    end loop;
    return v_prints;
end
$$;

-- The sinks that topics go to, by the routes of the relays that run. Where headers decide, all that may be meant. A tenant reads none.
create function @schema@.sinks_of(namespaces text[], topics text[]) returns text[]
    language sql stable security definer
    set search_path = pg_catalog, pg_temp
as $$
    select array_agg(distinct s.sink order by s.sink)
      from unnest(namespaces, topics) t(namespace, topic)
     cross join @schema@.relay r
     cross join lateral (
        select x.route->>'sink' as sink, bool_or(x.route->'headers' is null) over (order by x.n rows between unbounded preceding and 1 preceding) as over
          from jsonb_array_elements(case when jsonb_typeof(r.info->'routes') = 'array' then r.info->'routes' else '[]' end)
               with ordinality x(route, n)
         where t.namespace like @schema@.like_of(x.route->>'namespace') and t.topic like @schema@.like_of(x.route->>'topic')) s
     where r.seen_at > clock_timestamp() - 3 * r.every and s.over is not true and @schema@.current_tenant() is null
$$;

-- Which fingerprints there are: those of the newest failures, and, for who sees all, the first 200 of each table by number. Its cost
-- depends neither on how many messages failed nor on how many groups they make.
create function @schema@.group_candidates() returns table (fingerprint bigint)
    language sql stable
    set search_path = pg_catalog, pg_temp
as $$
    with recursive dead(f, n) as (
        select min(l.fingerprint), 1 from @schema@.listing_dead l where @schema@.current_tenant() is null
        union all
        select (select l.fingerprint from @schema@.listing_dead l where l.fingerprint > d.f order by l.fingerprint limit 1), d.n + 1
          from dead d where d.f is not null and d.n < 200
    ), waiting(f, n) as (
        select min(l.fingerprint), 1 from @schema@.listing_queue l where l.fingerprint is not null and @schema@.current_tenant() is null
        union all
        select (select l.fingerprint from @schema@.listing_queue l where l.fingerprint > w.f order by l.fingerprint limit 1), w.n + 1
          from waiting w where w.f is not null and w.n < 200
    ), newest as (
        (select l.fingerprint as f from @schema@.listing_dead l order by l.id desc limit 5000)
        union all
        (select l.fingerprint from @schema@.listing_queue l where l.fingerprint is not null order by l.id desc limit 5000)
    )
    (select n.f from newest n where n.f is not null group by n.f order by count(*) desc limit 200)
    union
    select d.f from dead d where d.f is not null
    union
    select w.f from waiting w where w.f is not null
$$;

-- The groups that have most messages now. Counted up to max_count each, or fewer where there are many groups: then `estimated`, and the
-- times are those of the newest and oldest messages.
create function @schema@.groups(max_groups int default 100, max_count int default 10000)
    returns table (fingerprint text, code text, sample text, count bigint, dead bigint, retrying bigint, estimated boolean,
        first_seen timestamptz, last_seen timestamptz, topics text[], sinks text[], message_id uuid)
    language plpgsql stable
    set search_path = pg_catalog, pg_temp
    set jit = off
as $$
#variable_conflict use_column
declare
    v_prints constant bigint[] := array(select c.fingerprint from @schema@.group_candidates() c);
    v_most constant int := greatest(100, least(max_count, 200000 / greatest(1, cardinality(v_prints))));
begin
    return query
    with counted as (
        select p.print, d.n as dead, q.n as retrying, greatest(d.n, q.n) >= v_most as cut, least(d.first, o.first, q.first) as first,
               greatest(d.last, q.last) as last
          from unnest(v_prints) p(print)
         cross join lateral (select count(*) as n, min(x.died_at) as first, max(x.died_at) as last
                               from (select l.died_at from @schema@.listing_dead l where l.fingerprint = p.print order by l.id desc limit v_most) x) d
         cross join lateral (select min(x.died_at) as first
                               from (select l.died_at from @schema@.listing_dead l where l.fingerprint = p.print and d.n >= v_most
                                      order by l.id limit 100) x) o
         cross join lateral (select count(*) as n, min(x.since) as first, max(x.since) as last
                               from (select l.since from @schema@.listing_queue l where l.fingerprint = p.print order by l.id desc limit v_most) x) q
         order by d.n + q.n desc, p.print limit max_groups
    )
    select lpad(to_hex(c.print), 16, '0'), m.last_code, left(m.last_error, 1000), c.dead + c.retrying, c.dead, c.retrying, c.cut,
           c.first, c.last, t.topics, @schema@.sinks_of(t.namespaces, t.names), m.id
      from counted c
     cross join lateral (
        (select l.id, true as dead from @schema@.listing_dead l where l.fingerprint = c.print order by l.id desc limit 1)
        union all
        (select l.id, false from @schema@.listing_queue l where l.fingerprint = c.print and c.dead = 0 order by l.id desc limit 1)
        limit 1) s
     cross join lateral (select x.id, x.last_code, x.last_error from @schema@.messages x where x.id = s.id offset 0) m
     cross join lateral (
        select array_agg(concat(nullif(x.namespace, 'default') || '/', x.topic) order by x.namespace, x.topic) as topics,
               array_agg(x.namespace) as namespaces, array_agg(x.topic) as names
          from (select distinct y.namespace, y.topic from (
                   (select l.namespace, l.topic from @schema@.listing_dead l where l.fingerprint = c.print order by l.id desc limit 100)
                   union all
                   (select g.namespace, g.topic
                      from (select l.id from @schema@.listing_queue l where l.fingerprint = c.print order by l.id desc limit 20) l
                     cross join lateral (select g.namespace, g.topic from @schema@.listing_message g where g.id = l.id limit 1) g)) y
                 limit 20) x) t
     order by 4 desc, 1;
end
$$;

create view @schema@.error_groups as
select g.fingerprint, g.code, g.sample, g.count, g.dead, g.retrying, g.estimated, g.first_seen, g.last_seen, g.topics, g.sinks, g.message_id
  from @schema@.groups() g;

-- ---- the last hour ----

-- A relay's row. The leader's, which has pending, also removes what is older than an hour and a bit.
create function @schema@.record_history(worker text, delivered bigint, failed bigint, dead bigint, latencies text, pending bigint default null,
    open bigint default null, oldest_ms bigint default null, estimated boolean default null) returns void
    language plpgsql security definer
    set search_path = pg_catalog, pg_temp
as $$
#variable_conflict use_column
declare
    v_now constant timestamptz := clock_timestamp();
begin
    perform @schema@.check_no_tenant();
    insert into @schema@.series (at, worker, delivered, failed, dead, latencies, pending, open, oldest_s, estimated)
    values (v_now, left(record_history.worker, 200), record_history.delivered, record_history.failed, record_history.dead,
            left(record_history.latencies, 400), record_history.pending, record_history.open, record_history.oldest_ms / 1000.0,
            record_history.estimated);
    if record_history.pending is not null then
        delete from @schema@.series s where s.at < v_now - interval '65 min' or s.at > v_now + interval '5 min';
    end if;
end
$$;

-- ---- news of dead letters, for operators (Y10) ----
--
-- The leading relay asks with dead_news and tells with tell_news, in one transaction that has locked the row of notice: so there is one
-- message per interval, whoever leads, and each dead letter is in one of them. Messages of the namespace outbox are the news themselves:
-- their dead letters are never told. While the last message is on its way there is no other: a route that is down gathers none.

-- The groups of what became a dead letter since the last time, the largest first; no row: it is not time yet, or there are fewer than
-- minimum. A settle that took longer than a minute to commit is not seen.
create function @schema@.dead_news(every interval, minimum int, in_namespace text default null, in_topic text default null)
    returns table (fingerprint text, code text, sample text, count bigint, topics text, message_id text, total bigint, since timestamptz, upto text)
    language plpgsql security definer
    set search_path = pg_catalog, pg_temp
as $$
#variable_conflict use_column
declare
    n @schema@.notice;
begin
    perform @schema@.check_no_tenant();
    select * into n from @schema@.notice x where x.name = 'dead' for update skip locked;
    if not found or n.at > clock_timestamp() - every then
        return;
    end if;
    if exists (select from @schema@.stored m where m.id = n.message_id)
            and not exists (select from @schema@.dead d where d.id = n.message_id)
            and not exists (select from @schema@.attempt_stored a where a.message_id = n.message_id and a.outcome = 1) then
        return;
    end if;
    return query
    with news as (
        select d.id, d.fingerprint, d.code, d.error, d.topic, d.died_at
          from @schema@.dead d
         where d.died_at > n.at - interval '1 min' and not pg_visible_in_snapshot(d.buried, n.upto) and d.namespace <> 'outbox'
           and (in_namespace is null or d.namespace like @schema@.like_of(in_namespace))
           and (in_topic is null or d.topic like @schema@.like_of(in_topic))
         order by d.died_at limit 10000
    )
    select lpad(to_hex(w.fingerprint), 16, '0'), (array_agg(w.code order by w.died_at desc))[1],
           left((array_agg(w.error order by w.died_at desc))[1], 300), count(*),
           to_jsonb((array_agg(distinct w.topic))[1:5])::text, (array_agg(w.id order by w.died_at desc))[1]::text,
           (sum(count(*)) over ())::bigint, n.at, pg_current_snapshot()::text
      from news w
     group by w.fingerprint
    having (select count(*) from news) >= minimum
     order by count(*) desc limit 10;
end
$$;

-- Enqueues the news as a message, which only a relay can and only in this topic. upto: from dead_news, in the same transaction.
create function @schema@.tell_news(payload jsonb, recipient text, upto text) returns uuid
    language plpgsql security definer
    set search_path = pg_catalog, pg_temp
as $$
declare
    r @schema@.receipt;
begin
    perform @schema@.check_no_tenant();
    r := @schema@.enqueue('dead_letters', tell_news.payload, namespace => 'outbox', recipient => tell_news.recipient);
    update @schema@.notice x set at = clock_timestamp(), upto = tell_news.upto::pg_snapshot, message_id = r.id where x.name = 'dead';
    return r.id;
end
$$;

do $$
declare
    c record;
begin
    for c in select * from (values
        ('error_groups', null, 'Dead letters and messages that wait after a failure, grouped by code and text without ids, numbers, addresses, times and quoted texts; the largest groups first, at most 100. outbox list group:FINGERPRINT lists the messages of one.'),
        ('error_groups', 'fingerprint', 'The group: 16 digits.'),
        ('error_groups', 'code', 'The code of the failure.'),
        ('error_groups', 'sample', 'The text of the failure of its newest message.'),
        ('error_groups', 'count', 'How many messages have failed like this and are not delivered, discarded or retried.'),
        ('error_groups', 'dead', 'Of those: dead letters.'),
        ('error_groups', 'retrying', 'Of those: they wait for another attempt, or are in one.'),
        ('error_groups', 'estimated', 'There are more than were counted.'),
        ('error_groups', 'first_seen', 'When the first of these messages failed like this.'),
        ('error_groups', 'last_seen', 'When the last one did.'),
        ('error_groups', 'topics', 'The topics of its newest messages; namespace/topic where the namespace is not default.'),
        ('error_groups', 'sinks', 'The sinks that these topics go to, by the routes of the relays that run.'),
        ('error_groups', 'message_id', 'The message of the sample.')) c(view, col, text) loop
        if c.col is null then
            execute format('comment on view %I.%I is %L', @schema_text@, c.view, c.text);
        else
            execute format('comment on column %I.%I.%I is %L', @schema_text@, c.view, c.col, c.text);
        end if;
    end loop;
end
$$;
