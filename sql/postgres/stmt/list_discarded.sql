-- list_discarded: what operators discarded, by their acts. Parameters and columns as in list.
select id, status, namespace, topic, tenant_id::pg_catalog.text, key, dedupe_key, subject, recipient, correlation_id,
       headers,
       content_type, locked_by, last_code, last_error, dead_reason, case when $11::pg_catalog.bool then payload end,
       case when $11::pg_catalog.bool then body end, seq, priority, attempts, spent, max_attempts, max_attempts_from, deferred, redriven, parked,
       created_at,
       updated_at, next_attempt_at, locked_until, delivered_at, expires_at, encoding
from @schema@.messages join (select message_id as letter from @schema@.acts where action operator(pg_catalog.=) 'discard') d on d.letter operator(pg_catalog.=) id
where ($1::pg_catalog.uuid[] is null or id operator(pg_catalog.=) any ($1::pg_catalog.uuid[]))
  and ($2::pg_catalog.text is null or namespace operator(pg_catalog.~~) @schema@.like_of($2::pg_catalog.text))
  and ($3::pg_catalog.text is null or topic operator(pg_catalog.~~) @schema@.like_of($3::pg_catalog.text))
  and ($4::pg_catalog.uuid is null or tenant_id operator(pg_catalog.=) $4::pg_catalog.uuid)
  and ($5::pg_catalog.text is null or key operator(pg_catalog.=) $5::pg_catalog.text)
  and ($6::pg_catalog.text is null or subject operator(pg_catalog.=) $6::pg_catalog.text)
  and ($7::pg_catalog.text is null or last_code operator(pg_catalog.=) $7::pg_catalog.text)
  and ($8::pg_catalog.text is null or status operator(pg_catalog.=) $8::pg_catalog.text)
  and ($9::pg_catalog.timestamptz is null
       or (created_at operator(pg_catalog.<) $9::pg_catalog.timestamptz
           and id operator(pg_catalog.<) @schema@.uuid_at(least($9::pg_catalog.timestamptz,
           '294276-01-01 00:00:00Z') operator(pg_catalog.+) '1 ms'::pg_catalog.interval)))
  and ($12::pg_catalog.uuid is null or id operator(pg_catalog.<) $12::pg_catalog.uuid)
order by id desc
limit $10::pg_catalog.int4
