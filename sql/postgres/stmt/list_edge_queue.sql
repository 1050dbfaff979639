-- list_edge_queue: the same for messages that are pending, in the queue and in the log. Parameters and column as in list_edge, without tenant and subject.
-- Each table is read in the order of ids, and no further than so many rows.
select l.id
  from ((select l.id
          from @schema@.listing_queue l
         where ($2::pg_catalog.uuid is null or l.id operator(pg_catalog.>=) $2::pg_catalog.uuid)
           and ($3::pg_catalog.uuid is null or l.id operator(pg_catalog.<=) $3::pg_catalog.uuid)
           and ($4::pg_catalog.uuid is null or l.id operator(pg_catalog.<) $4::pg_catalog.uuid)
           and ($5::pg_catalog.timestamptz is null or l.id operator(pg_catalog.<) @schema@.uuid_at(least($5::pg_catalog.timestamptz,
                '294276-01-01 00:00:00Z') operator(pg_catalog.+) '1 ms'::pg_catalog.interval))
           and ($6::pg_catalog.timestamptz is null
                or l.id operator(pg_catalog.>=) @schema@.uuid_at($6::pg_catalog.timestamptz operator(pg_catalog.-) '1 s'::pg_catalog.interval))
           and l.pending
         order by l.id desc
         limit $1::pg_catalog.int4)
        union all
        (select l.id
          from @schema@.listing_log l
         where ($2::pg_catalog.uuid is null or l.id operator(pg_catalog.>=) $2::pg_catalog.uuid)
           and ($3::pg_catalog.uuid is null or l.id operator(pg_catalog.<=) $3::pg_catalog.uuid)
           and ($4::pg_catalog.uuid is null or l.id operator(pg_catalog.<) $4::pg_catalog.uuid)
           and ($5::pg_catalog.timestamptz is null or l.id operator(pg_catalog.<) @schema@.uuid_at(least($5::pg_catalog.timestamptz,
                '294276-01-01 00:00:00Z') operator(pg_catalog.+) '1 ms'::pg_catalog.interval))
           and ($6::pg_catalog.timestamptz is null
                or l.id operator(pg_catalog.>=) @schema@.uuid_at($6::pg_catalog.timestamptz operator(pg_catalog.-) '1 s'::pg_catalog.interval)))) l
 order by l.id desc
offset $1::pg_catalog.int4 operator(pg_catalog.-) 1
 limit 1
