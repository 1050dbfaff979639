-- groups: failures by fingerprint, the largest groups first. $1 how many groups at most.
-- Columns: fingerprint, code, sample, count, dead, retrying, estimated, first_seen, last_seen, topics and sinks (JSON), id of the sample.
select g.fingerprint, g.code, g.sample, g.count, g.dead, g.retrying, g.estimated, g.first_seen, g.last_seen,
       pg_catalog.to_jsonb(g.topics)::pg_catalog.text, pg_catalog.to_jsonb(g.sinks)::pg_catalog.text, g.message_id::pg_catalog.text
  from @schema@.groups(max_groups => $1::pg_catalog.int4) g
