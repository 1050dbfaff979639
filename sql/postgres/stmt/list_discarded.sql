-- list_discarded: what operators discarded, by their acts. Parameters and columns as in list.
select id, status, namespace, topic, tenant_id::text, key, dedupe_key, subject, recipient, correlation_id, headers,
       content_type, locked_by, last_code, last_error, dead_reason, case when $11::boolean then payload end,
       case when $11::boolean then body end, seq, priority, attempts, spent, max_attempts, redriven, parked, created_at,
       updated_at, next_attempt_at, locked_until, delivered_at, expires_at, encoding
from @schema@.messages join (select message_id as letter from @schema@.acts where action = 'discard') d on d.letter = id
where ($1::uuid[] is null or id = any ($1::uuid[]))
  and ($2::text is null or namespace = $2::text)
  and ($3::text is null or topic = $3::text)
  and ($4::uuid is null or tenant_id = $4::uuid)
  and ($5::text is null or key = $5::text)
  and ($6::text is null or subject = $6::text)
  and ($7::text is null or last_code = $7::text)
  and ($8::text is null or status = $8::text)
  and ($9::timestamptz is null
       or (created_at < $9::timestamptz
           and id < @schema@.uuid_at(least($9::timestamptz, '294276-01-01 00:00:00Z') + interval '1 ms')))
  and ($12::uuid is null or id < $12::uuid)
order by id desc
limit $10::int
