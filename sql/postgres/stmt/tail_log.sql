-- tail_log: messages of the log that one snapshot sees and an earlier one does not, in the order of the log.
-- $1 the earlier, $2 the later snapshot, $3 none older than this, $4 and $5 after this place, $6 at most so many.
-- Columns: as all tail_ statements, src/store/pg/tail.c counts on their order. Takes no locks.
select m.ord, m.pos, m.id, m.created_at, m.id, m.created_at, m.namespace, m.topic, m.tenant_id::pg_catalog.text, m.key, m.subject, m.recipient,
       m.correlation_id
  from (select pg_catalog.pg_snapshot_xmax($1::pg_catalog.pg_snapshot) as first, pg_catalog.pg_snapshot_xmax($2::pg_catalog.pg_snapshot) as last,
               array(select pg_catalog.pg_snapshot_xip($1::pg_catalog.pg_snapshot)) as running offset 0) b
 cross join pg_catalog.generate_series(-1, 7) s(shard)
 cross join lateral (
    (select x.* from @schema@.tail_message x
      where x.shard operator(pg_catalog.=) s.shard and x.ord operator(pg_catalog.>=) b.first and x.ord operator(pg_catalog.<) b.last
        and row (x.ord, x.pos) operator(pg_catalog.>) row ($4::pg_catalog.xid8, $5::pg_catalog.int8)
        and x.created_at operator(pg_catalog.>=) $3::pg_catalog.timestamptz
        and pg_catalog.pg_visible_in_snapshot(coalesce(x.xid, x.ord), $2::pg_catalog.pg_snapshot)
        and not pg_catalog.pg_visible_in_snapshot(coalesce(x.xid, x.ord), $1::pg_catalog.pg_snapshot)
      order by x.ord, x.pos limit $6::pg_catalog.int4)
    union all
    (select x.* from @schema@.tail_message x
      where x.shard operator(pg_catalog.=) s.shard and x.ord operator(pg_catalog.=) any (b.running) and x.xid is null
        and row (x.ord, x.pos) operator(pg_catalog.>) row ($4::pg_catalog.xid8, $5::pg_catalog.int8)
        and x.created_at operator(pg_catalog.>=) $3::pg_catalog.timestamptz
        and pg_catalog.pg_visible_in_snapshot(x.ord, $2::pg_catalog.pg_snapshot)
      order by x.ord, x.pos limit $6::pg_catalog.int4)
    union all
    (select x.* from @schema@.tail_message x
      where x.shard operator(pg_catalog.=) s.shard and x.xid operator(pg_catalog.=) any (b.running) and x.ord operator(pg_catalog.<) b.first
        and row (x.ord, x.pos) operator(pg_catalog.>) row ($4::pg_catalog.xid8, $5::pg_catalog.int8)
        and x.created_at operator(pg_catalog.>=) $3::pg_catalog.timestamptz
        and pg_catalog.pg_visible_in_snapshot(x.xid, $2::pg_catalog.pg_snapshot)
      order by x.ord, x.pos limit $6::pg_catalog.int4)) m
 order by m.ord, m.pos
 limit $6::pg_catalog.int4
