-- tail_dead: messages that became dead letters. $1 to $3 as in tail_log, $4 and $5 after this transaction and id, $6 at most so many.
-- Columns: those of tail_log, then attempts, code, error, and why.
select d.xid, null::pg_catalog.int8, d.id, d.died_at, d.id, d.created_at, d.namespace, d.topic, d.tenant_id::pg_catalog.text, d.key, d.subject, d.recipient,
       d.correlation_id, d.attempts, d.code, d.error, d.reason
  from (select pg_catalog.pg_snapshot_xmax($1::pg_catalog.pg_snapshot) as first, pg_catalog.pg_snapshot_xmax($2::pg_catalog.pg_snapshot) as last,
               array(select pg_catalog.pg_snapshot_xip($1::pg_catalog.pg_snapshot)) as running offset 0) b
 cross join lateral (
    (select x.* from @schema@.tail_dead x
      where x.xid operator(pg_catalog.>=) b.first and x.xid operator(pg_catalog.<) b.last and x.xid operator(pg_catalog.>=) $4::pg_catalog.xid8
        and row (x.xid, x.id) operator(pg_catalog.>) row ($4::pg_catalog.xid8, $5::pg_catalog.uuid)
        and x.died_at operator(pg_catalog.>=) $3::pg_catalog.timestamptz
        and pg_catalog.pg_visible_in_snapshot(x.xid, $2::pg_catalog.pg_snapshot)
      order by x.xid, x.id limit $6::pg_catalog.int4)
    union all
    (select x.* from @schema@.tail_dead x
      where x.xid operator(pg_catalog.=) any (b.running)
        and row (x.xid, x.id) operator(pg_catalog.>) row ($4::pg_catalog.xid8, $5::pg_catalog.uuid)
        and x.died_at operator(pg_catalog.>=) $3::pg_catalog.timestamptz
        and pg_catalog.pg_visible_in_snapshot(x.xid, $2::pg_catalog.pg_snapshot)
      order by x.xid, x.id limit $6::pg_catalog.int4)) d
 order by d.xid, d.id
 limit $6::pg_catalog.int4
