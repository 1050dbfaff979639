-- list_edge: where a look through the messages ends that begins at the newest: the id of the last of so
-- many. No row: there are fewer. Only what an index serves is asked for.
-- $1 how many, $2 and $3 first and last id, $4 below this id, $5 created before, $6 created since, $7 tenant, $8 subject.
-- Column: id.
select l.id
  from @schema@.listing_message l
 where ($2::pg_catalog.uuid is null or l.id operator(pg_catalog.>=) $2::pg_catalog.uuid)
   and ($3::pg_catalog.uuid is null or l.id operator(pg_catalog.<=) $3::pg_catalog.uuid)
   and ($4::pg_catalog.uuid is null or l.id operator(pg_catalog.<) $4::pg_catalog.uuid)
   and ($5::pg_catalog.timestamptz is null or l.id operator(pg_catalog.<) @schema@.uuid_at(least($5::pg_catalog.timestamptz,
        '294276-01-01 00:00:00Z') operator(pg_catalog.+) '1 ms'::pg_catalog.interval))
   and ($6::pg_catalog.timestamptz is null
        or l.id operator(pg_catalog.>=) @schema@.uuid_at($6::pg_catalog.timestamptz operator(pg_catalog.-) '1 s'::pg_catalog.interval))
   and ($7::pg_catalog.uuid is null or l.tenant_id operator(pg_catalog.=) $7::pg_catalog.uuid)
   and ($8::pg_catalog.text is null or l.subject operator(pg_catalog.=) $8::pg_catalog.text)
 order by l.id desc
offset $1::pg_catalog.int4 operator(pg_catalog.-) 1
 limit 1
