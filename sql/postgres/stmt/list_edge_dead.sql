-- list_edge_dead: the same for dead letters. Parameters and column as in list_edge, without the subject.
select l.id
  from @schema@.listing_dead l
 where ($2::pg_catalog.uuid is null or l.id operator(pg_catalog.>=) $2::pg_catalog.uuid)
   and ($3::pg_catalog.uuid is null or l.id operator(pg_catalog.<=) $3::pg_catalog.uuid)
   and ($4::pg_catalog.uuid is null or l.id operator(pg_catalog.<) $4::pg_catalog.uuid)
   and ($5::pg_catalog.timestamptz is null or l.id operator(pg_catalog.<) @schema@.uuid_at(least($5::pg_catalog.timestamptz,
        '294276-01-01 00:00:00Z') operator(pg_catalog.+) '1 ms'::pg_catalog.interval))
   and ($6::pg_catalog.timestamptz is null
        or l.id operator(pg_catalog.>=) @schema@.uuid_at($6::pg_catalog.timestamptz operator(pg_catalog.-) '1 s'::pg_catalog.interval))
   and ($7::pg_catalog.uuid is null or l.tenant_id operator(pg_catalog.=) $7::pg_catalog.uuid)
 order by l.id desc
offset $1::pg_catalog.int4 operator(pg_catalog.-) 1
 limit 1
