-- groups: failures by fingerprint, the largest groups first. ?1 how many groups at most.
-- Columns: fingerprint, code, sample, count, dead, retrying, estimated, first and last seen, topics and sinks (JSON), id of the sample.
SELECT g.fingerprint, g.code, g.sample, g.count, g.dead, g.retrying, g.estimated,
       min(g.dead_first_us, coalesce(g.queue_first_us, g.dead_first_us)), max(coalesce(g.dead_last_us, 0), coalesce(g.queue_last_us, 0)),
       g.topics, g.sinks, g.message_id
  FROM outbox_group_figures g
 LIMIT ?1
