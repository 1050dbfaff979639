-- tail_queue: messages that began in the queue. $1 to $3 and columns as in tail_log, $4 and $5 after this transaction and id, $6 at most so many.
select m.xid, null::pg_catalog.int8, m.id, m.created_at, m.id, m.created_at, m.namespace, m.topic, m.tenant_id::pg_catalog.text, m.key, m.subject,
       m.recipient, m.correlation_id
  from (select pg_catalog.pg_snapshot_xmax($1::pg_catalog.pg_snapshot) as first, pg_catalog.pg_snapshot_xmax($2::pg_catalog.pg_snapshot) as last,
               array(select pg_catalog.pg_snapshot_xip($1::pg_catalog.pg_snapshot)) as running offset 0) b
 cross join lateral (
    (select x.* from @schema@.tail_message x
      where x.shard is null and x.xid operator(pg_catalog.>=) b.first and x.xid operator(pg_catalog.<) b.last
        and row (x.xid, x.id) operator(pg_catalog.>) row ($4::pg_catalog.xid8, $5::pg_catalog.uuid)
        and x.created_at operator(pg_catalog.>=) $3::pg_catalog.timestamptz
        and pg_catalog.pg_visible_in_snapshot(x.xid, $2::pg_catalog.pg_snapshot)
      order by x.xid, x.id limit $6::pg_catalog.int4)
    union all
    (select x.* from @schema@.tail_message x
      where x.shard is null and x.xid operator(pg_catalog.=) any (b.running)
        and row (x.xid, x.id) operator(pg_catalog.>) row ($4::pg_catalog.xid8, $5::pg_catalog.uuid)
        and x.created_at operator(pg_catalog.>=) $3::pg_catalog.timestamptz
        and pg_catalog.pg_visible_in_snapshot(x.xid, $2::pg_catalog.pg_snapshot)
      order by x.xid, x.id limit $6::pg_catalog.int4)) m
 order by m.xid, m.id
 limit $6::pg_catalog.int4
