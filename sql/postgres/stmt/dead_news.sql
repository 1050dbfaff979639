-- dead_news: what became a dead letter since operators were last told, by group; locks the row of notice. $1 time between two, $2 minimum,
-- $3 namespaces, $4 topics.
-- Columns: fingerprint, code, sample, count, topics (JSON), id of the sample, total, since, upto.
select n.fingerprint, n.code, n.sample, n.count, n.topics, n.message_id, n.total, n.since, n.upto
  from @schema@.dead_news($1::pg_catalog.interval, $2::pg_catalog.int4, $3::pg_catalog.text, $4::pg_catalog.text) n
