-- Settle: records how an attempt ended.
--
-- A settle names the message and the token of the claim it answers. The token is the attempt number, which never
-- repeats, so a late worker finds another number there (or no lease, or no row) and changes nothing. The row's lease end
-- is not compared with the clock: an ack after expiry is valid as long as no other claim has taken the message. A
-- caller that gives its worker's name settles only what was claimed under that name, or under a longer name that begins
-- with it (a relay appends a counter). So an attempt number that repeats, after a database was restored, does no harm
-- to callers that give names.
--
-- Locks: queue rows in the order of their places, then the parked successor of each settled row. A settle waits only for
-- claims and for other settles of the same messages, and claims wait for nobody, so settles do not deadlock. One case
-- is left: rows that an extend has moved since are settled last, and a second extend on another connection may then
-- deadlock with the settle (40P01); either is simply tried again.
--
--   outcome   1 delivered  2 retry  3 failed  4 lost  5 limited  6 blocked  7 unknown  8 released
--             9 interrupted  10 silent, which is written down as 7
--   delay     microseconds; null or negative: by policy; the lowest bigint: never, so 2 and 7 are dead of their attempts
--   budget    what the message may spend in all, from now on, where its producer did not say; null: as it was

-- After rows left the front of their key: the next row of each, if parked, is due now.
create function @schema@.wake_successors(sids bigint[], seqs bigint[]) returns void
    language plpgsql
as $$
begin
    -- Nearly always nobody is parked, and queue_parked is small. The second statement must not use it: a plan made while it
    -- was empty would read all of it.
    if exists (select from unnest(sids, seqs) g(sid, seq),
                      lateral (select from @schema@.queue q where q.sid = g.sid and q.seq = g.seq + 1 and q.parked offset 0) q) then
        update @schema@.queue q set parked = false, due = clock_timestamp()
          from (select * from unnest(sids, seqs) g(sid, seq) where sid is not null order by sid, seq) g
         where q.sid = g.sid and q.seq = g.seq + 1 and coalesce(q.parked, false) and not q.held;
    end if;
end
$$;

-- The dead letters of these queue rows.
create function @schema@.write_dead(ids uuid[], reasons text[], codes text[], errors text[], v_now timestamptz) returns void
    language plpgsql
    set plan_cache_mode = force_custom_plan -- see spans_of
as $$
#variable_conflict use_column
declare
    v_spans constant record := @schema@.spans_of(array(select i from unnest(ids) i order by i));
    v_prints constant bigint[] := @schema@.fingerprints(codes, errors);
begin
    insert into @schema@.dead (
        id, created_at, ord, pos, lane, seq, sid, xid, due, expires_at, tenant_id, bytes, shard, priority, max_attempts,
        namespace, topic, key, dedupe_key, subject, recipient, correlation_id, content_type, headers, payload, body,
        encoding, attempts, spent, reason, code, error, died_at, held, budget, by_sink, fingerprint)
    select
        m.id, m.created_at, m.ord, m.pos, m.lane, m.seq, m.sid, m.xid, m.due, m.expires_at, m.tenant_id, m.bytes, m.shard,
        m.priority, m.max_attempts, m.namespace, m.topic, m.key, m.dedupe_key, m.subject, m.recipient, m.correlation_id,
        m.content_type, m.headers, m.payload, m.body, m.encoding,
        q.attempts, q.spent, t.reason, t.code, t.error, v_now, q.sid is not null and coalesce(n.on_dead, s.on_dead) = 'hold',
        q.max_attempts, q.by_sink, t.print
      from unnest(ids, reasons, codes, errors, v_prints) t(id, reason, code, error, print)
      join @schema@.queue q on q.id = t.id
     cross join lateral (select * from @schema@.stored x
                          where x.id = t.id and @schema@.within(x.id, v_spans.low, v_spans.high) offset 0) m
      join @schema@.namespace s on s.name = '*'
      left join @schema@.namespace n on n.name = m.namespace;
end
$$;

-- Turns queue rows into dead letters. The caller holds their locks. A row whose message was erased is just deleted.
create function @schema@.bury(ids uuid[], reasons text[], codes text[], errors text[], v_now timestamptz) returns void
    language plpgsql
as $$
#variable_conflict use_column
declare
    v_sids bigint[];
    v_seqs bigint[];
begin
    perform @schema@.write_dead(ids, reasons, codes, errors, v_now);
    update @schema@.queue q
       set held = true, parked = true, until = null, holder = null, since = v_now
      from @schema@.dead d
     where q.id = any (ids) and d.id = q.id and d.held;

    with gone as (
        delete from @schema@.queue q where q.id = any (ids) and not q.held returning q.sid, q.seq
    )
    select array_agg(sid), array_agg(seq) into v_sids, v_seqs from gone where sid is not null;
    if v_sids is not null then
        perform @schema@.wake_successors(v_sids, v_seqs);
    end if;
end
$$;

-- Why each of these is at its end: no attempts left, or expired.
create function @schema@.ends_of(tids tid[], v_now timestamptz, out ids uuid[], out reasons text[], out codes text[],
    out errors text[])
    language plpgsql
    set plan_cache_mode = force_custom_plan
as $$
#variable_conflict use_column
declare
    v_spans constant record := @schema@.spans_of(array(
        select q.id from @schema@.queue q where q.ctid = any (tids) order by q.id));
begin
    select array_agg(q.id),
           array_agg(case when q.expires_at <= v_now then 'expired' else 'attempts' end),
           array_agg(case when q.expires_at <= v_now then 'expired' else a.code end),
           array_agg(case when q.expires_at <= v_now then format('expired at %s', q.expires_at) else a.error end)
      into ids, reasons, codes, errors
      from @schema@.queue q
      left join lateral (select a.code, a.error from @schema@.attempt_single a
                          where a.message_id = q.id and @schema@.within(a.message_id, v_spans.low, v_spans.high)
                          order by a.attempt_no desc limit 1) a on true
     where q.ctid = any (tids);
end
$$;

-- What a claim finds at its end.
create function @schema@.bury_claimed(tids tid[], v_now timestamptz) returns void
    language plpgsql
as $$
declare
    r constant record := @schema@.ends_of(tids, v_now);
begin
    perform @schema@.bury(r.ids, r.reasons, r.codes, r.errors, v_now);
    perform @schema@.fire('dead', r.ids, null, later => true);
end
$$;

-- Deletes what was delivered and writes its attempts: the path that nearly all messages take. places are where the claim
-- saw the rows: finding them there is cheaper than by id, and always safe, since id and token are compared too.
create function @schema@.settle_delivered(ids uuid[], tokens bigint[], places tid[], codes text[], refs text[],
    latencies bigint[], worker text, v_now timestamptz, out done uuid[], out sids bigint[], out seqs bigint[])
    language plpgsql
    set enable_nestloop = off
    set enable_hashjoin = on
as $$
#variable_conflict use_column
begin
    -- Nested loops are off: t has no index, and a hash of it gives the codes along with the match.
    with gone as (
        delete from @schema@.queue q
         using unnest(ids, tokens, codes, refs, latencies) t(id, token, code, ref, latency)
         where q.ctid = any (places) and q.until is not null and q.id = t.id and q.attempts = t.token
           and (worker is null or starts_with(q.holder, worker))
        returning q.id, q.attempts, q.spent, q.since, q.tenant_id, q.holder, q.sid, q.seq, t.code, t.ref, t.latency
    ), written as (
        insert into @schema@.attempt (message_id, attempt_no, outcome, spent, latency, claimed_at, completed_at, tenant_id,
            worker, code, reference)
        select g.id, g.attempts, 1, g.spent,
               case when g.latency is not null then least(g.latency / 1000, 2147483647) end, g.since, v_now, g.tenant_id, g.holder,
               left(g.code, @code_max@), left(g.ref, @reference_max@)
          from gone g
    )
    select array_agg(id), array_agg(sid) filter (where sid is not null), array_agg(seq) filter (where sid is not null)
      into done, sids, seqs
      from gone;
end
$$;

-- Locks the rows that these tokens hold, wherever they are now, and says where. In the order of places, as a scan by place
-- does it, so that two settles of the same messages cannot deadlock. The next statement sees each row as it was locked:
-- one that locks and changes at once would miss a row that moved while it waited (its lease was extended).
create function @schema@.places_of(ids uuid[], tokens bigint[], worker text) returns tid[]
    language plpgsql
as $$
begin
    return (select coalesce(array_agg(q.ctid), '{}')
      from (select q.ctid
              from unnest(ids, tokens) t(id, token)
              join @schema@.queue q on q.id = t.id and q.attempts = t.token and q.until is not null
                   and (worker is null or starts_with(q.holder, worker))
             order by q.ctid
               for update of q) q);
end
$$;

-- Which of them are limited or blocked just as their last attempt was, with the same code.
create function @schema@.put_off_again(ids uuid[], outcomes int[], codes text[]) returns uuid[]
    language plpgsql
    set plan_cache_mode = force_custom_plan
as $$
declare
    v_spans constant record := @schema@.spans_of(array(
        select q.id from @schema@.queue q where q.id = any (ids) and q.deferred > 0 order by q.id));
begin
    if cardinality(v_spans.low) = 0 then
        return '{}';
    end if;
    return array(
        select t.id
          from unnest(ids, outcomes, codes) t(id, outcome, code)
          join @schema@.queue q on q.id = t.id and q.deferred > 0
         cross join lateral (select a.outcome, a.code from @schema@.attempt_single a
                              where a.message_id = t.id and @schema@.within(a.message_id, v_spans.low, v_spans.high)
                              order by a.attempt_no desc limit 1) a
         where t.outcome in (5, 6) and a.outcome = t.outcome and a.code is not distinct from left(t.code, @code_max@));
end
$$;

-- Settles the others; the caller holds their locks. Those that will be tried again get a due time; dying returns the
-- ids to bury. A message that is due again at once (released, interrupted) keeps its place in the index: otherwise
-- claims would read and park everything behind the first message of a key before they find it again. A deferred message
-- (limited, blocked, silent) spends nothing, so deferrals are counted separately, and its delays follow that count. If
-- it is limited or blocked as in its last attempt, with the same code, that is not recorded again.
create function @schema@.settle_others(ids uuid[], tokens bigint[], outcomes int[], codes text[], errors text[],
    refs text[], delays bigint[], latencies bigint[], budgets int[], worker text, v_now timestamptz, out done uuid[],
    out dying uuid[])
    language plpgsql
as $$
#variable_conflict use_column
declare
    v_again constant uuid[] := case when outcomes && '{5,6}' then @schema@.put_off_again(ids, outcomes, codes) end;
    v_prints constant bigint[] := case when outcomes && '{2,5,6,7,10}' then @schema@.fingerprints(codes, errors) end;
begin
    with t as (
        select * from unnest(ids, tokens, outcomes, codes, errors, refs, delays, latencies, budgets, v_prints)
                   t(id, token, outcome, code, error, ref, delay, latency, budget, print)
    ), mine as (
        select q.ctid as tid, q.id, q.attempts, q.spent, q.since, q.tenant_id, q.holder, t.code, t.error, t.ref,
               t.latency, case when t.outcome = 10 then 7 else t.outcome end as outcome, t.outcome = 3 or (t.outcome in (2, 7) and (q.spent >= coalesce(t.budget, q.ceiling)
                   or coalesce(t.delay = '-9223372036854775808', false))) as dying,
               t.outcome in (5, 6, 8, 9, 10) as unspent, t.outcome in (5, 6, 10) as put_off,
               t.id in (select unnest(v_again)) as again, t.budget, t.print,
               coalesce(case when t.delay >= 0 then t.delay * interval '1 microsecond' end,
                        case when t.outcome in (8, 9) then interval '0' end,
                        (0.5 + random() / 2) * least(q.retry_base * 2.0 ^ least(case when t.outcome in (5, 6, 10)
                            then q.deferred else q.spent - 1 end, 30), q.retry_cap)::float8 * interval '1 ms') as delay
          from t
          join @schema@.queue q on q.id = t.id and q.attempts = t.token and q.until is not null
               and (worker is null or starts_with(q.holder, worker))
    ), written as (
        insert into @schema@.attempt (message_id, attempt_no, outcome, spent, latency, claimed_at, completed_at, tenant_id,
            worker, code, error, reference)
        select id, attempts, case when dying and outcome = 2 then 3 else outcome end, spent - unspent::int,
               case when latency is not null then least(latency / 1000, 2147483647) end, since, v_now, tenant_id, holder,
               left(code, @code_max@), error, left(ref, @reference_max@)
          from mine where outcome <> 8 and again is not true
    ), back as (
        update @schema@.queue q
           set due = case when m.delay > interval '0' or m.outcome not in (8, 9) then least(v_now + m.delay, q.expires_at) else q.due end,
               until = null, holder = null, since = v_now, ceiling = null,
               fingerprint = case when m.outcome in (8, 9) then q.fingerprint else m.print end,
               max_attempts = coalesce(m.budget, q.max_attempts), by_sink = q.by_sink or m.budget is not null,
               retry_base = null, retry_cap = null, spent = q.spent - m.unspent::int,
               deferred = case when m.put_off then least(q.deferred + 1, 32767) when m.outcome in (8, 9) then q.deferred else 0 end
          from mine m
         where q.ctid = m.tid and not m.dying
        returning q.id
    ), limited as ( -- for the dead letter to tell
        update @schema@.queue q set max_attempts = m.budget, by_sink = true
          from mine m
         where q.ctid = m.tid and m.dying and m.budget is not null
    )
    select array_agg(id), array_agg(id) filter (where dying) into done, dying from mine;
end
$$;

-- Those that exist or existed: another worker has them now, or they are finished.
create function @schema@.known(ids uuid[]) returns uuid[]
    language plpgsql
    set plan_cache_mode = force_custom_plan
as $$
declare
    v_spans constant record := @schema@.spans_of(array(select i from unnest(ids) i where i is not null order by i));
begin
    return array(
        select t.id from unnest(ids) t(id)
         where exists (select from @schema@.stored m where m.id = t.id and @schema@.within(m.id, v_spans.low, v_spans.high))
            or exists (select from @schema@.dead d where d.id = t.id));
end
$$;

-- A session with a tenant settles no other tenant's messages.
create function @schema@.check_own(ids uuid[]) returns boolean
    language plpgsql
as $$
begin
    if current_setting('app.current_tenant_id', true) <> '' then
        if exists (select from @schema@.queue q where q.id = any (ids)
                      and q.tenant_id is distinct from (select @schema@.current_tenant())) then
            raise exception 'a message is not of the session''s tenant %', @schema@.current_tenant() using errcode = 'OB002',
                hint = 'Set app.current_tenant_id to the tenant of the messages, or to none.';
        end if;
    end if;
    return true;
end
$$;

-- The outcomes of many attempts. brief: return only the rows that are not simply ok.
create function @schema@.settle(ids uuid[], tokens bigint[], outcomes int[], codes text[] default null,
    errors text[] default null, refs text[] default null, outputs jsonb[] default null, delays bigint[] default null,
    latencies bigint[] default null, places tid[] default null, brief boolean default false, worker text default null,
    budgets int[] default null)
    returns table (ord int, id uuid, result text, dead boolean)
    language plpgsql security definer
    set search_path = pg_catalog, pg_temp
    set jit = off
    set enable_seqscan = off
    set enable_hashjoin = off
    set enable_mergejoin = off
    set plan_cache_mode = force_generic_plan
as $$
#variable_conflict use_column
declare
    v_now constant timestamptz := clock_timestamp();
    v_count constant int := cardinality(ids);
    v_fine boolean; -- only so that a check is not a statement
    v_done uuid[];
    v_dying uuid[];
    v_missing uuid[];
    v_known uuid[];
    v_sids bigint[];
    v_seqs bigint[];
    r record;
begin
    v_fine := @schema@.check_isolation() and @schema@.check_own(ids);
    if v_count is null or v_count > @settle_max@ or cardinality(tokens) is distinct from v_count
            or cardinality(outcomes) is distinct from v_count or cardinality(codes) <> v_count
            or cardinality(errors) <> v_count or cardinality(refs) <> v_count or cardinality(outputs) <> v_count
            or cardinality(delays) <> v_count or cardinality(latencies) <> v_count
            or cardinality(places) <> v_count or cardinality(budgets) <> v_count then
        raise exception 'the arrays have different lengths, or more than @settle_max@ elements' using errcode = 'OB001',
            hint = 'Give one id, token and outcome per message; optional arrays are as long, or null.';
    end if;
    if (outcomes <@ '{1,2,3,5,6,7,8,9,10}') is not true then
        raise exception 'an outcome is not one of 1, 2, 3, 5, 6, 7, 8, 9, 10' using errcode = 'OB001',
            hint = '1 delivered, 2 retry, 3 failed, 5 limited, 6 blocked, 7 unknown, 8 released, 9 interrupted, 10 silent.';
    end if;
    if exists (select from unnest(ids) i group by i having count(*) > 1) then
        -- A token works once: of each message the newest counts, and of that the first.
        return query
            with t as (
                select row_number() over (partition by u.id order by u.token desc nulls last, u.ordinality) = 1 as first,
                       u.*
                  from unnest(ids, tokens, outcomes, codes, errors, refs, outputs, delays, latencies, budgets)
                       with ordinality u(id, token, outcome, code, error, ref, output, delay, latency, budget, ordinality)
            ), a as (
                select array_agg(t.ordinality::int order by t.ordinality) as ords, array_agg(t.id order by t.ordinality) as ids,
                       array_agg(t.token order by t.ordinality) as tokens, array_agg(t.outcome order by t.ordinality) as outcomes,
                       array_agg(t.code order by t.ordinality) as codes, array_agg(t.error order by t.ordinality) as errors,
                       array_agg(t.ref order by t.ordinality) as refs, array_agg(t.output order by t.ordinality) as outputs,
                       array_agg(t.delay order by t.ordinality) as delays,
                       array_agg(t.latency order by t.ordinality) as latencies,
                       array_agg(t.budget order by t.ordinality) as budgets
                  from t where t.first
            )
            select a.ords[s.ord], s.id, s.result, s.dead
              from a, lateral @schema@.settle(a.ids, a.tokens, a.outcomes, a.codes, a.errors, a.refs, a.outputs, a.delays,
                          a.latencies, null, brief, worker, a.budgets) s
            union all
            select t.ordinality::int, t.id, 'lost', false from t where not t.first
            order by 1;
        return;
    end if;
    if @delay_max@ < any (delays) then
        raise exception 'a delay is too long' using errcode = 'OB001',
            hint = 'Delays are microseconds, and take @delay_range@.';
    end if;
    if @max_attempts_min@ > any (budgets) or @max_attempts_max@ < any (budgets) then
        raise exception 'a budget is out of range' using errcode = 'OB001', hint = 'It takes @max_attempts_range@.';
    end if;

    if 1 = all (outcomes) then
        select * into r from @schema@.settle_delivered(ids, tokens, coalesce(places, @schema@.places_of(ids, tokens, worker)), codes,
            refs, latencies, worker, v_now);
        v_done := r.done;
        if places is not null and cardinality(v_done) is distinct from v_count then
            -- Some rows have moved (a lease was extended), or are not ours any more.
            v_missing := array(select t.id from unnest(ids) t(id) where t.id <> all (coalesce(v_done, '{}')));
            v_sids := r.sids;
            v_seqs := r.seqs;
            select * into r from @schema@.settle_delivered(ids, tokens, @schema@.places_of(v_missing,
                array(select t.token from unnest(ids, tokens) t(id, token) where t.id = any (v_missing)), worker), codes, refs,
                latencies, worker, v_now);
            v_done := v_done || r.done;
            r.sids := v_sids || r.sids;
            r.seqs := v_seqs || r.seqs;
        end if;
        if r.sids is not null then
            perform @schema@.wake_successors(r.sids, r.seqs);
        end if;
        if exists (select from @schema@.hook) then
            perform @schema@.fire('delivered', v_done, @schema@.outputs_of(v_done, ids, outputs));
        end if;
    else
        perform @schema@.places_of(ids, tokens, worker);
        -- Those that return before those that leave: bury and wake_successors then see the batch as it ends.
        select o.* into r
          from (select array_agg(t.id) as ids, array_agg(t.token) as tokens, array_agg(t.outcome) as outcomes,
                       array_agg(t.code) as codes, array_agg(left(t.error, @error_max@)) as errors, array_agg(t.ref) as refs,
                       array_agg(t.delay) as delays, array_agg(t.latency) as latencies, array_agg(t.budget) as budgets
                  from unnest(ids, tokens, outcomes, codes, errors, refs, delays, latencies, budgets)
                           t(id, token, outcome, code, error, ref, delay, latency, budget) where t.outcome <> 1) t,
               lateral @schema@.settle_others(t.ids, t.tokens, t.outcomes, t.codes, t.errors, t.refs, t.delays,
                           t.latencies, t.budgets, worker, v_now) o;
        v_done := r.done;
        v_dying := r.dying;
        if 1 = any (outcomes) then
            select d.* into r
              from (select array_agg(t.id) as ids, array_agg(t.token) as tokens, array_agg(t.code) as codes,
                           array_agg(t.ref) as refs, array_agg(t.latency) as latencies
                      from unnest(ids, tokens, outcomes, codes, refs, latencies)
                               t(id, token, outcome, code, ref, latency) where t.outcome = 1) t,
                   lateral @schema@.settle_delivered(t.ids, t.tokens, @schema@.places_of(t.ids, t.tokens, worker), t.codes,
                               t.refs, t.latencies, worker, v_now) d;
            if r.sids is not null then
                perform @schema@.wake_successors(r.sids, r.seqs);
            end if;
            perform @schema@.fire('delivered', r.done, @schema@.outputs_of(r.done, ids, outputs));
            v_done := v_done || r.done;
        end if;
        if v_dying is not null then
            select array_agg(t.id) as ids, array_agg(case t.outcome when 3 then 'terminal' else 'attempts' end) as reasons,
                   array_agg(left(t.code, @code_max@)) as codes, array_agg(left(t.error, @error_max@)) as errors
              into r
              from unnest(ids, outcomes, codes, errors) t(id, outcome, code, error) where t.id = any (v_dying);
            perform @schema@.bury(r.ids, r.reasons, r.codes, r.errors, v_now);
            perform @schema@.fire('dead', r.ids, null);
        end if;
        perform @schema@.fire('retry', array(select t.id from unnest(ids, outcomes) t(id, outcome)
            where t.outcome in (2, 7) and t.id = any (v_done) and t.id <> all (coalesce(v_dying, '{}'))), null);
    end if;

    if cardinality(v_done) = v_count and v_dying is null then
        if brief then
            return;
        end if;
        return query select t.ordinality::int, t.id, 'ok', false from unnest(ids) with ordinality t(id, ordinality);
        return;
    end if;
    if cardinality(v_done) is distinct from v_count then
        v_known := @schema@.known(array(select t.id from unnest(ids) t(id) where t.id <> all (coalesce(v_done, '{}'))));
    end if;
    return query
        select t.ordinality::int, t.id,
               case when t.id = any (v_done) then 'ok'
                    when t.id in (select unnest(v_known)) then 'lost'
                    else 'unknown' end,
               t.id = any (coalesce(v_dying, '{}'))
          from unnest(ids) with ordinality t(id, ordinality)
         where not brief or t.id <> all (coalesce(v_done, '{}')) or t.id = any (v_dying)
         order by 1;
end
$$;

-- These run with the caller's rights and search_path, and qualify every name: they are inlined.
create function @schema@.ack(ids uuid[], tokens bigint[], refs text[] default null, latencies bigint[] default null)
    returns table (id uuid, result text)
    language sql
as $$
    select s.id, s.result
      from @schema@.settle(ids, tokens, pg_catalog.array_fill(1, array[coalesce(pg_catalog.cardinality(ids), 0)]), null, null,
               refs, null, null, latencies) s
$$;

create function @schema@.nack(ids uuid[], tokens bigint[], errors text[], codes text[] default null,
    delays interval[] default null)
    returns table (id uuid, result text, dead boolean)
    language sql
as $$
    select s.id, s.result, s.dead
      from @schema@.settle(ids, tokens, pg_catalog.array_fill(2, array[coalesce(pg_catalog.cardinality(ids), 0)]), codes, errors,
               null, null, (select pg_catalog.array_agg((extract(epoch from d) operator(pg_catalog.*) 1000000)::bigint order by o)
                  from pg_catalog.unnest(delays) with ordinality u(d, o))) s
$$;

-- Releases messages unspent: nothing was sent.
create function @schema@.release(ids uuid[], tokens bigint[], delay interval default null)
    returns table (id uuid, result text)
    language sql
as $$
    select s.id, s.result
      from @schema@.settle(ids, tokens, pg_catalog.array_fill(8, array[coalesce(pg_catalog.cardinality(ids), 0)]), null, null,
               null, null, pg_catalog.array_fill((extract(epoch from coalesce(delay, '0')) operator(pg_catalog.*) 1000000)::bigint,
                   array[coalesce(pg_catalog.cardinality(ids), 0)])) s
$$;

create function @schema@.extend(ids uuid[], tokens bigint[], lease interval default '30 s', worker text default null)
    returns table (ord int, id uuid, result text)
    language plpgsql security definer
    set search_path = pg_catalog, pg_temp
    set enable_seqscan = off
    set plan_cache_mode = force_generic_plan
as $$
#variable_conflict use_column
declare
    v_fine boolean;
    v_done uuid[];
    v_known uuid[];
begin
    v_fine := @schema@.check_isolation() and @schema@.check_own(ids)
        and @schema@.check_range('lease', extract(epoch from lease)::numeric, @lease_min_s@, @lease_max_s@, ' s',
                '@lease_range@');
    if cardinality(ids) is null or cardinality(ids) > @settle_max@ or cardinality(ids) is distinct from cardinality(tokens) then
        raise exception 'the arrays have different lengths, or more than @settle_max@ elements' using errcode = 'OB001',
            hint = 'Give one token per id.';
    end if;
    perform @schema@.places_of(ids, tokens, worker);
    with longer as (
        update @schema@.queue q set until = clock_timestamp() + lease
          from unnest(ids, tokens) t(id, token) where q.id = t.id and q.attempts = t.token and q.until is not null
           and (worker is null or starts_with(q.holder, worker))
        returning q.id
    )
    select array_agg(id) into v_done from longer;
    if cardinality(v_done) is distinct from cardinality(ids) then
        v_known := @schema@.known(array(select t.id from unnest(ids) t(id) where t.id <> all (coalesce(v_done, '{}'))));
    end if;
    return query
        select t.ordinality::int, t.id,
               case when t.id = any (v_done) then 'ok'
                    when t.id in (select unnest(v_known)) then 'lost'
                    else 'unknown' end
          from unnest(ids) with ordinality t(id, ordinality)
         order by 1;
end
$$;
