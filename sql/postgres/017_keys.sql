-- Keys that wait: what is behind which message, and why.

-- The keys with most messages behind their first one, at a cost that does not grow with the queue: of the first max_look keys that
-- have messages behind another, each counted up to max_count.
create function @schema@.waiting_keys(max_keys int default 100, max_look int default 1000, max_count int default 10000)
    returns table (namespace text, topic text, key text, tenant_id uuid, head uuid, head_status text, waiting bigint, since timestamptz, why text)
    language plpgsql stable security definer
    set search_path = pg_catalog, pg_temp
    set jit = off
as $$
#variable_conflict use_column
declare
    v_now constant timestamptz := clock_timestamp();
begin
    perform @schema@.check_no_tenant();
    return query
    with recursive streams(sid, n) as (
        select (select q.sid from @schema@.queue q where q.parked order by q.sid limit 1), 1
        union all
        select (select q.sid from @schema@.queue q where q.parked and q.sid > s.sid order by q.sid limit 1), s.n + 1
          from streams s where s.sid is not null and s.n < max_look
    ), counted as (
        select s.sid, w.n
          from streams s
         cross join lateral (select count(*) as n from (select from @schema@.queue q where q.sid = s.sid and q.parked and not q.held limit max_count) x) w
         where w.n > 0 order by w.n desc, s.sid limit max_keys
    )
    select m.namespace, m.topic, m.key, m.tenant_id, m.id, m.status, c.n, f.created_at,
           case when m.status = 'dead' then concat_ws(': ', 'dead', m.last_code, m.last_error)
                when m.status = 'processing' then format('attempt %s is under way', m.attempts)
                when m.next_attempt_at > v_now and m.attempts > 0 then concat_ws(': ', format('attempt %s failed', m.attempts), m.last_code, m.last_error)
                when m.next_attempt_at > v_now then 'it is delayed'
                else 'it is due' end
      from counted c
     cross join lateral (select q.id from @schema@.queue q where q.sid = c.sid order by q.seq limit 1) h
     cross join lateral (select * from @schema@.messages x where x.id = h.id offset 0) m
     cross join lateral (select q.id from @schema@.queue q where q.sid = c.sid and q.parked and not q.held order by q.seq limit 1) w
     cross join lateral (select x.created_at from @schema@.messages x where x.id = w.id offset 0) f
     order by c.n desc, f.created_at, m.id;
end
$$;
