-- list_group: dead letters, and messages that wait after a failure, of one fingerprint. Parameters and columns as in list; $22 the
-- fingerprint, 16 hex digits.
select m.id, m.status, m.namespace, m.topic, m.tenant_id::pg_catalog.text, m.key, m.dedupe_key, m.subject, m.recipient, m.correlation_id,
       m.headers, m.content_type, m.locked_by, m.last_code, m.last_error, m.dead_reason,
       case when $21::pg_catalog.bool then m.payload end, case when $21::pg_catalog.bool then m.body end, m.seq, m.priority, m.attempts, m.spent,
       m.max_attempts, m.max_attempts_from, m.deferred, m.redriven, m.parked, m.created_at, m.updated_at, m.next_attempt_at, m.locked_until,
       m.delivered_at, m.expires_at, m.encoding
  from (select l.id
          from (select d.id, d.code, d.error from @schema@.listing_dead d
                 where d.fingerprint operator(pg_catalog.=) ('x' operator(pg_catalog.||) $22::pg_catalog.text)::pg_catalog.bit(64)::pg_catalog.int8
                union all
                select q.id, null, null from @schema@.listing_queue q
                 where q.fingerprint operator(pg_catalog.=) ('x' operator(pg_catalog.||) $22::pg_catalog.text)::pg_catalog.bit(64)::pg_catalog.int8) l
         where ($1::pg_catalog.uuid[] is null or l.id operator(pg_catalog.=) any ($1::pg_catalog.uuid[]))
           and ($16::pg_catalog.uuid is null or l.id operator(pg_catalog.>=) $16::pg_catalog.uuid)
           and ($17::pg_catalog.uuid is null or l.id operator(pg_catalog.<=) $17::pg_catalog.uuid)
           and ($18::pg_catalog.uuid is null or l.id operator(pg_catalog.<) $18::pg_catalog.uuid)
           and ($19::pg_catalog.uuid is null or l.id operator(pg_catalog.>=) $19::pg_catalog.uuid)
           and ($12::pg_catalog.timestamptz is null or l.id operator(pg_catalog.<) @schema@.uuid_at(least($12::pg_catalog.timestamptz,
                '294276-01-01 00:00:00Z') operator(pg_catalog.+) '1 ms'::pg_catalog.interval))
           and ($13::pg_catalog.timestamptz is null
                or l.id operator(pg_catalog.>=) @schema@.uuid_at($13::pg_catalog.timestamptz operator(pg_catalog.-) '1 s'::pg_catalog.interval))
           and ($9::pg_catalog.text is null or l.code is null or l.code operator(pg_catalog.~~) @schema@.like_of($9::pg_catalog.text))
           and ($10::pg_catalog.text is null or l.error is null
                or pg_catalog.strpos(pg_catalog.lower(l.error), pg_catalog.lower($10::pg_catalog.text)) operator(pg_catalog.>) 0)
         order by l.id desc) c
 cross join lateral (select * from @schema@.messages x where x.id operator(pg_catalog.=) c.id offset 0) m
 where ($2::pg_catalog.text is null or m.namespace operator(pg_catalog.~~) @schema@.like_of($2::pg_catalog.text))
   and ($3::pg_catalog.text is null or m.topic operator(pg_catalog.~~) @schema@.like_of($3::pg_catalog.text))
   and ($4::pg_catalog.uuid is null or m.tenant_id operator(pg_catalog.=) $4::pg_catalog.uuid)
   and ($5::pg_catalog.text is null or m.key operator(pg_catalog.=) $5::pg_catalog.text)
   and ($6::pg_catalog.text is null or m.subject operator(pg_catalog.=) $6::pg_catalog.text)
   and ($7::pg_catalog.text is null or m.recipient operator(pg_catalog.=) $7::pg_catalog.text)
   and ($8::pg_catalog.text is null or m.correlation_id operator(pg_catalog.=) $8::pg_catalog.text)
   and ($9::pg_catalog.text is null or m.last_code operator(pg_catalog.~~) @schema@.like_of($9::pg_catalog.text))
   and ($10::pg_catalog.text is null
        or pg_catalog.strpos(pg_catalog.lower(m.last_error), pg_catalog.lower($10::pg_catalog.text)) operator(pg_catalog.>) 0)
   and ($11::pg_catalog.text is null or m.status operator(pg_catalog.=) $11::pg_catalog.text)
   and ($12::pg_catalog.timestamptz is null or m.created_at operator(pg_catalog.<) $12::pg_catalog.timestamptz)
   and ($13::pg_catalog.timestamptz is null or m.created_at operator(pg_catalog.>=) $13::pg_catalog.timestamptz)
   and ($14::pg_catalog.int4 is null or m.attempts operator(pg_catalog.>=) $14::pg_catalog.int4)
   and ($15::pg_catalog.int4 is null or m.attempts operator(pg_catalog.<) $15::pg_catalog.int4)
 order by c.id desc
 limit $20::pg_catalog.int4
