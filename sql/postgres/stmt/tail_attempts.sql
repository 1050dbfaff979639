-- tail_attempts: attempts that ended. $1 to $3 as in tail_log, $4 to $6 after this transaction, message and number, $7 at most so many, and the
-- rest of a row that several share. Columns: those of tail_log, then what is known of the attempt.
select a.xid, a.attempt_no::pg_catalog.int8, a.message_id, a.completed_at, u.id, f.created_at, f.namespace, f.topic, f.tenant_id::pg_catalog.text, f.key,
       f.subject, f.recipient, f.correlation_id, greatest(a.attempt_no, 1), a.outcome::pg_catalog.int4, a.worker, u.code, a.error, u.reference,
       u.latency::pg_catalog.int8 operator(pg_catalog.*) 1000
  from (select y.*, pg_catalog.sum(coalesce(pg_catalog.cardinality(y.ids), 1)) over (order by y.xid, y.message_id, y.attempt_no)
                    operator(pg_catalog.-) coalesce(pg_catalog.cardinality(y.ids), 1) as so_far
          from (select x.*
                  from (select pg_catalog.pg_snapshot_xmax($1::pg_catalog.pg_snapshot) as first,
                               pg_catalog.pg_snapshot_xmax($2::pg_catalog.pg_snapshot) as last,
                               array(select pg_catalog.pg_snapshot_xip($1::pg_catalog.pg_snapshot)) as running offset 0) b
                 cross join lateral (
                    (select t.* from @schema@.tail_attempt t
                      where t.xid operator(pg_catalog.>=) b.first and t.xid operator(pg_catalog.<) b.last
                        and t.xid operator(pg_catalog.>=) $4::pg_catalog.xid8
                        and row (t.xid, t.message_id, t.attempt_no) operator(pg_catalog.>) row ($4::pg_catalog.xid8, $5::pg_catalog.uuid, $6::pg_catalog.int4)
                        and t.completed_at operator(pg_catalog.>=) $3::pg_catalog.timestamptz
                        and pg_catalog.pg_visible_in_snapshot(t.xid, $2::pg_catalog.pg_snapshot)
                      order by t.xid, t.message_id, t.attempt_no limit $7::pg_catalog.int4)
                    union all
                    (select t.* from @schema@.tail_attempt t
                      where t.xid operator(pg_catalog.=) any (b.running)
                        and row (t.xid, t.message_id, t.attempt_no) operator(pg_catalog.>) row ($4::pg_catalog.xid8, $5::pg_catalog.uuid, $6::pg_catalog.int4)
                        and t.completed_at operator(pg_catalog.>=) $3::pg_catalog.timestamptz
                        and pg_catalog.pg_visible_in_snapshot(t.xid, $2::pg_catalog.pg_snapshot)
                      order by t.xid, t.message_id, t.attempt_no limit $7::pg_catalog.int4)) x
                 order by x.xid, x.message_id, x.attempt_no
                 limit $7::pg_catalog.int4) y) a
 cross join lateral (
    select a.message_id as id, a.latency, a.code, a.reference where a.ids is null
    union all
    select n.id, n.latency, n.code, n.reference from unnest(a.ids, a.latencies, a.codes, a.refs) n(id, latency, code, reference)
     where a.ids is not null) u
  left join lateral (select * from @schema@.tail_facts x where x.id operator(pg_catalog.=) u.id limit 1) f on true
 where a.so_far operator(pg_catalog.<) $7::pg_catalog.int4
 order by a.xid, a.message_id, a.attempt_no
