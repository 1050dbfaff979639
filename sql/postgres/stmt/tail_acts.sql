-- tail_acts: acts of operators. $1 to $3 as in tail_log, $4 and $5 after this transaction and number, $6 at most so many.
-- Columns: those of tail_log, then actor, action, reason and detail.
select a.xid, a.id, null::pg_catalog.uuid, a.at, a.message_id, f.created_at, f.namespace, f.topic, coalesce(f.tenant_id, a.tenant_id)::pg_catalog.text, f.key,
       f.subject, f.recipient, f.correlation_id, a.actor, a.action, a.reason, a.detail::pg_catalog.text
  from (select pg_catalog.pg_snapshot_xmax($1::pg_catalog.pg_snapshot) as first, pg_catalog.pg_snapshot_xmax($2::pg_catalog.pg_snapshot) as last,
               array(select pg_catalog.pg_snapshot_xip($1::pg_catalog.pg_snapshot)) as running offset 0) b
 cross join lateral (
    (select x.* from @schema@.tail_act x
      where x.xid operator(pg_catalog.>=) b.first and x.xid operator(pg_catalog.<) b.last and x.xid operator(pg_catalog.>=) $4::pg_catalog.xid8
        and row (x.xid, x.id) operator(pg_catalog.>) row ($4::pg_catalog.xid8, $5::pg_catalog.int8)
        and x.at operator(pg_catalog.>=) $3::pg_catalog.timestamptz
        and pg_catalog.pg_visible_in_snapshot(x.xid, $2::pg_catalog.pg_snapshot)
      order by x.xid, x.id limit $6::pg_catalog.int4)
    union all
    (select x.* from @schema@.tail_act x
      where x.xid operator(pg_catalog.=) any (b.running)
        and row (x.xid, x.id) operator(pg_catalog.>) row ($4::pg_catalog.xid8, $5::pg_catalog.int8)
        and x.at operator(pg_catalog.>=) $3::pg_catalog.timestamptz
        and pg_catalog.pg_visible_in_snapshot(x.xid, $2::pg_catalog.pg_snapshot)
      order by x.xid, x.id limit $6::pg_catalog.int4)) a
  left join lateral (select * from @schema@.tail_facts x where x.id operator(pg_catalog.=) a.message_id limit 1) f on true
 order by a.xid, a.id
 limit $6::pg_catalog.int4
