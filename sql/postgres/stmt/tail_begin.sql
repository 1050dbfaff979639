-- tail_begin: where to begin. $1 a time, null: now. Columns: a snapshot as text, the time on the server. Takes no locks.
select case when $1::pg_catalog.timestamptz is null then pg_catalog.pg_current_snapshot()::pg_catalog.text
            else pg_catalog.concat(x.first::pg_catalog.text, ':', x.first::pg_catalog.text, ':') end,
       pg_catalog.clock_timestamp()
  from (select case when $1::pg_catalog.timestamptz is not null then @schema@.xid_at($1::pg_catalog.timestamptz) end as first) x
