-- What happened, in the order of commits: for `outbox tail` and the events of the admin API.
--
-- A reader asks for the difference of two snapshots: what the second one sees and the first one did not. So nothing is told twice, and
-- a transaction that commits late is told when it commits, however long it ran. Each record has the number of its
-- transaction, with an index: a difference is the numbers from the first snapshot's end on, and those of the few transactions that were
-- running then. Both are short, whatever is stored. Messages of the log have (ord, pos) for that already (002_tables.sql).

-- Without a default first: rows of the past have no number.
alter table @schema@.attempt add column xid xid8;
alter table @schema@.attempt_kept add column xid xid8;
alter table @schema@.dead add column buried xid8;
alter table @schema@.act add column xid xid8;
alter table @schema@.attempt alter column xid set default pg_current_xact_id();
alter table @schema@.dead alter column buried set default pg_current_xact_id();
alter table @schema@.act alter column xid set default pg_current_xact_id();
create index attempt_xid on @schema@.attempt (xid);
create index dead_buried on @schema@.dead (buried);
create index act_xid on @schema@.act (xid);

-- What may be seen follows from the owner's row security, as with the views of 011_views.sql.
create view @schema@.tail_message as
select m.id, m.created_at, m.ord, m.pos, m.xid, m.shard, m.namespace, m.topic, m.tenant_id, m.key, m.subject, m.recipient, m.correlation_id
  from @schema@.message m;

create view @schema@.tail_facts as
select m.id, m.created_at, m.namespace, m.topic, m.tenant_id, m.key, m.subject, m.recipient, m.correlation_id from @schema@.message m
union all
select m.id, m.created_at, m.namespace, m.topic, m.tenant_id, m.key, m.subject, m.recipient, m.correlation_id from @schema@.message_kept m;

create view @schema@.tail_attempt as
select a.xid, a.message_id, a.attempt_no, a.outcome, a.latency, a.completed_at, a.tenant_id, a.worker, a.code, a.error, a.reference, a.ids,
       a.latencies, a.codes, a.refs
  from @schema@.attempt a;

create view @schema@.tail_dead as
select d.buried as xid, d.id, d.created_at, d.died_at, d.attempts, d.reason, d.code, d.error, d.namespace, d.topic, d.tenant_id, d.key,
       d.subject, d.recipient, d.correlation_id
  from @schema@.dead d;

create view @schema@.tail_act as
select a.xid, a.id, a.at, a.actor, a.action, a.reason, a.message_id, a.tenant_id, a.detail from @schema@.act a;

-- The number of the first transaction that recorded something at or after this time, or a little lower: times follow numbers but for
-- transactions that ran long. A binary search: some forty lookups by index.
create function @schema@.xid_at(since timestamptz) returns xid8
    language plpgsql stable
    set search_path = pg_catalog, pg_temp
as $$
declare
    v_low bigint := 3;
    v_high bigint := pg_snapshot_xmax(pg_current_snapshot())::text::bigint;
    v_middle bigint;
    v_at timestamptz;
begin
    while v_low < v_high loop
        v_middle := v_low + (v_high - v_low) / 2;
        select p.at into v_at
          from ((select a.xid, a.completed_at as at from @schema@.tail_attempt a
                  where a.xid >= v_middle::text::xid8 order by a.xid limit 1)
                union all
                select m.ord, m.created_at
                  from generate_series(-1, 7) s(shard)
                 cross join lateral (select m.ord, m.created_at from @schema@.tail_message m
                                      where m.shard = s.shard and m.ord >= v_middle::text::xid8 order by m.ord, m.pos limit 1) m) p
         order by p.xid limit 1;
        if v_at < since then
            v_low := v_middle + 1;
        else
            v_high := v_middle;
        end if;
    end loop;
    return v_low::text::xid8;
end
$$;
