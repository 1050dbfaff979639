-- list_edge_group: the same for the failures of one fingerprint. Parameters and column as in list_edge; $7 the fingerprint, 16 hex digits.
-- Each table is read in the order of ids, and no further than so many rows.
select l.id
  from ((select l.id
          from @schema@.listing_dead l
         where l.fingerprint operator(pg_catalog.=) ('x' operator(pg_catalog.||) $7::pg_catalog.text)::pg_catalog.bit(64)::pg_catalog.int8
           and ($2::pg_catalog.uuid is null or l.id operator(pg_catalog.>=) $2::pg_catalog.uuid)
           and ($3::pg_catalog.uuid is null or l.id operator(pg_catalog.<=) $3::pg_catalog.uuid)
           and ($4::pg_catalog.uuid is null or l.id operator(pg_catalog.<) $4::pg_catalog.uuid)
           and ($5::pg_catalog.timestamptz is null or l.id operator(pg_catalog.<) @schema@.uuid_at(least($5::pg_catalog.timestamptz,
                '294276-01-01 00:00:00Z') operator(pg_catalog.+) '1 ms'::pg_catalog.interval))
           and ($6::pg_catalog.timestamptz is null
                or l.id operator(pg_catalog.>=) @schema@.uuid_at($6::pg_catalog.timestamptz operator(pg_catalog.-) '1 s'::pg_catalog.interval))
         order by l.id desc
         limit $1::pg_catalog.int4)
        union all
        (select l.id
          from @schema@.listing_queue l
         where l.fingerprint operator(pg_catalog.=) ('x' operator(pg_catalog.||) $7::pg_catalog.text)::pg_catalog.bit(64)::pg_catalog.int8
           and ($2::pg_catalog.uuid is null or l.id operator(pg_catalog.>=) $2::pg_catalog.uuid)
           and ($3::pg_catalog.uuid is null or l.id operator(pg_catalog.<=) $3::pg_catalog.uuid)
           and ($4::pg_catalog.uuid is null or l.id operator(pg_catalog.<) $4::pg_catalog.uuid)
           and ($5::pg_catalog.timestamptz is null or l.id operator(pg_catalog.<) @schema@.uuid_at(least($5::pg_catalog.timestamptz,
                '294276-01-01 00:00:00Z') operator(pg_catalog.+) '1 ms'::pg_catalog.interval))
           and ($6::pg_catalog.timestamptz is null
                or l.id operator(pg_catalog.>=) @schema@.uuid_at($6::pg_catalog.timestamptz operator(pg_catalog.-) '1 s'::pg_catalog.interval))
         order by l.id desc
         limit $1::pg_catalog.int4)) l
 order by l.id desc
offset $1::pg_catalog.int4 operator(pg_catalog.-) 1
 limit 1
