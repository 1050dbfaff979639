-- explain: why a message is not delivered yet. The first row says it, further rows what else is in the way; a message behind another of its
-- key is followed by the answer for that one (step 2). The same as the function explain on PostgreSQL.
-- ?1 id, ?2 now. Columns: step, message id, state, reason, facts as JSON, command that changes it. Takes no locks.
WITH mine(n, seq, sid) AS (
    SELECT m.n, m.seq, coalesce(q.sid, (SELECT t.sid FROM outbox_lane l JOIN outbox_stream t
               ON t.namespace = l.namespace AND t.topic = l.order_topic AND t.tenant_id IN ('', m.tenant_id) AND t.key = m.key
             WHERE l.n = m.lane))
      FROM outbox_message m LEFT JOIN outbox_queue q ON q.n = m.n
     WHERE m.id = ?1 AND m.key IS NOT NULL
), first(n) AS (
    SELECT (SELECT h.n FROM mine x JOIN outbox_queue h ON h.sid = x.sid AND h.seq < x.seq ORDER BY h.seq LIMIT 1)
), who AS MATERIALIZED (
    SELECT CASE WHEN s.id = ?1 THEN 1 ELSE 2 END AS step, s.n, s.id, s.namespace, s.topic, s.key, s.seq, s.headers, s.status, s.attempts, s.spent,
           s.max_attempts, s.next_attempt_at, s.locked_by, s.locked_until, s.last_code, s.last_error, s.dead_reason, s.updated_at, s.delivered_at,
           s.expires_at, strftime('%Y-%m-%dT%H:%M:%SZ', s.next_attempt_at / 1000000, 'unixepoch') AS due_text,
           strftime('%Y-%m-%dT%H:%M:%SZ', s.locked_until / 1000000, 'unixepoch') AS until_text,
           strftime('%Y-%m-%dT%H:%M:%SZ', s.expires_at / 1000000, 'unixepoch') AS expires_text,
           strftime('%Y-%m-%dT%H:%M:%SZ', s.delivered_at / 1000000, 'unixepoch') AS delivered_text
      FROM outbox_state s
     WHERE s.id IN (?1, (SELECT m.id FROM first f JOIN outbox_message m ON m.n = f.n
                          WHERE (SELECT x.status FROM outbox_state x WHERE x.id = ?1) = 'pending'))
), head AS (
    SELECT * FROM who WHERE step = 2
), last AS (
    SELECT * FROM who WHERE step = (SELECT max(step) FROM who) AND status = 'pending'
), alive(worker, enabled, unsure, sink) AS MATERIALIZED (
    SELECT r.worker, coalesce(json_extract(r.info, '$.enabled'), 1), coalesce(json_extract(r.info, '$.cut'), 0) OR json_type(r.info, '$.routes') IS NULL,
           (SELECT json_extract(x.value, '$.sink') FROM json_each(r.info, '$.routes') x
             WHERE l.namespace GLOB replace(json_extract(x.value, '$.namespace'), '[', '[[]')
               AND l.topic GLOB replace(json_extract(x.value, '$.topic'), '[', '[[]')
               AND NOT EXISTS (SELECT 1 FROM json_each(x.value, '$.headers') h
                                WHERE NOT coalesce(json_extract(l.headers, '$."' || h.key || '"') GLOB replace(h.value, '[', '[[]'), 0))
             ORDER BY x.key LIMIT 1)
      FROM last l CROSS JOIN outbox_relay r
     WHERE r.seen_at > ?2 - 3 * r.every
), own(step, place, id, state, reason, facts, command) AS MATERIALIZED (
    SELECT w.step, 0, w.id, 'delivered',
           'delivered at ' || w.delivered_text || ' by ' || a.worker || ', at attempt ' || w.attempts || coalesce('; the receiver calls it ' || a.reference, ''),
           json_object('at', w.delivered_text, 'worker', a.worker, 'attempts', w.attempts, 'reference', a.reference, 'code', a.code),
           'outbox redeliver ' || w.id
      FROM who w LEFT JOIN outbox_attempt a ON a.n = w.n AND a.attempt_no = w.attempts WHERE w.status = 'delivered'
    UNION ALL
    SELECT w.step, 0, w.id, 'discarded',
           CASE WHEN t.action = 'move' THEN 'moved to the topic ' || json_extract(t.detail, '$.topic') || ' by ' ELSE 'discarded by ' END
               || coalesce(t.actor, '?') || ' at ' || strftime('%Y-%m-%dT%H:%M:%SZ', w.updated_at / 1000000, 'unixepoch')
               || coalesce(', as ' || json_extract(t.detail, '$.as'), '') || coalesce(': ' || t.reason, ''),
           json_object('actor', t.actor, 'code', w.last_code, 'error', w.last_error, 'attempts', w.attempts),
           CASE WHEN t.action = 'move' THEN 'outbox explain ' || json_extract(t.detail, '$.as') ELSE 'outbox redeliver ' || w.id END
      FROM who w LEFT JOIN outbox_act t ON t.n = (SELECT max(x.n) FROM outbox_act x WHERE x.message_id = w.id AND x.action IN ('discard', 'move'))
     WHERE w.status = 'discarded'
    UNION ALL
    SELECT w.step, 0, w.id, CASE WHEN w.dead_reason = 'expired' THEN 'expired' WHEN w.last_code = 'schema' THEN 'schema_refused' ELSE 'dead' END,
           CASE WHEN w.dead_reason = 'skipped' OR t.action = 'expire' AND w.dead_reason = 'expired'
                    THEN CASE w.dead_reason WHEN 'skipped' THEN 'put aside by ' ELSE 'expired by ' END || coalesce(t.actor, 'an operator') || ' at '
                         || strftime('%Y-%m-%dT%H:%M:%SZ', w.updated_at / 1000000, 'unixepoch') || CASE w.dead_reason WHEN 'skipped' THEN ' (skip)' ELSE '' END
                         || coalesce(': ' || t.reason, '')
                WHEN w.dead_reason = 'expired' THEN 'it expired at ' || w.expires_text || ' before it was delivered'
                WHEN w.last_code = 'schema' THEN 'its payload does not fit the JSON Schema of its route: ' || coalesce(w.last_error, '')
                ELSE 'dead after ' || w.attempts || ' attempts (' || w.dead_reason || '): ' || coalesce(w.last_code || ': ', '') || coalesce(w.last_error, '') END,
           json_object('dead_reason', w.dead_reason, 'code', w.last_code, 'error', w.last_error, 'attempts', w.attempts, 'since',
               strftime('%Y-%m-%dT%H:%M:%SZ', w.updated_at / 1000000, 'unixepoch')),
           'outbox retry ' || w.id || ' (or: outbox discard ' || w.id || ')'
      FROM who w LEFT JOIN outbox_act t ON t.n = (SELECT max(x.n) FROM outbox_act x WHERE x.message_id = w.id AND x.action IN ('skip', 'expire'))
     WHERE w.status = 'dead'
    UNION ALL
    SELECT w.step, 0, w.id, CASE WHEN w.locked_until > ?2 THEN 'leased' ELSE 'lease_lost' END,
           CASE WHEN w.locked_until > ?2 THEN w.locked_by || ' has it since attempt ' || w.attempts || ' began; its lease ends at ' || w.until_text
                ELSE w.locked_by || ' had it and was not heard of again; its lease ended at ' || w.until_text || ', and the next claim takes it' END
               || CASE WHEN r.alive THEN '; that relay is alive' ELSE '; no relay of that name is alive' END,
           json_object('worker', w.locked_by, 'until', w.until_text, 'attempt', w.attempts, 'alive', json(CASE WHEN r.alive THEN 'true' ELSE 'false' END)),
           CASE WHEN w.locked_until > ?2 THEN 'wait until the lease ends' ELSE 'outbox run' END
      FROM who w
      JOIN (SELECT EXISTS (SELECT 1 FROM who x JOIN outbox_relay y ON x.locked_by = y.worker OR substr(x.locked_by, 1, length(y.worker) + 1) = y.worker || '.'
                            WHERE y.seen_at > ?2 - 3 * y.every) AS alive) r
     WHERE w.status = 'processing'
    UNION ALL
    SELECT w.step, 0, w.id, CASE WHEN h.status = 'dead' THEN 'held' ELSE 'behind' END,
           CASE WHEN h.status = 'dead' THEN 'its key is held by the dead letter ' ELSE 'an earlier message of its key goes first: ' END || h.id,
           json_object('head', h.id, 'head_status', h.status, 'key', w.key, 'seq', w.seq, 'head_seq', h.seq),
           CASE WHEN h.status = 'dead' THEN 'outbox retry ' || h.id || ' (or: outbox skip ' || h.id || ')' ELSE 'outbox explain ' || h.id END
      FROM who w JOIN head h WHERE w.step = 1 AND w.status = 'pending'
    UNION ALL
    SELECT l.step, 0, l.id, 'expired', 'it expired at ' || l.expires_text || '; the next claim makes it a dead letter',
           json_object('expires_at', l.expires_text), NULL
      FROM last l WHERE l.expires_at <= ?2
    UNION ALL
    SELECT l.step, 0, l.id, 'delayed', 'it is not due before ' || l.due_text || ', as its producer asked', json_object('due', l.due_text), 'outbox retry ' || l.id
      FROM last l WHERE l.next_attempt_at > ?2 AND l.attempts = 0 AND coalesce(l.expires_at > ?2, 1)
    UNION ALL
    SELECT l.step, 0, l.id, CASE a.outcome WHEN 5 THEN 'limited' ELSE 'backoff' END,
           'attempt ' || l.attempts || ' ended as ' || CASE a.outcome WHEN 2 THEN 'retry' WHEN 4 THEN 'lost' WHEN 5 THEN 'limited' WHEN 6 THEN 'blocked'
               WHEN 9 THEN 'interrupted' ELSE 'unknown' END || coalesce(': ' || l.last_code, '') || coalesce(': ' || l.last_error, '')
               || '; the next one is due at ' || l.due_text,
           json_object('due', l.due_text, 'attempts', l.attempts, 'spent', l.spent, 'max_attempts', l.max_attempts, 'code', l.last_code, 'error', l.last_error),
           'outbox retry ' || l.id || CASE WHEN l.key IS NOT NULL THEN ' (or: outbox skip ' || l.id || ')' ELSE '' END
      FROM last l LEFT JOIN outbox_attempt a ON a.n = l.n AND a.attempt_no = l.attempts
     WHERE l.next_attempt_at > ?2 AND l.attempts > 0 AND coalesce(l.expires_at > ?2, 1)
    UNION ALL
    SELECT l.step, 1, l.id, 'paused',
           CASE WHEN p.namespace = '' THEN 'everything' WHEN p.topic = '' THEN 'the namespace ' || p.namespace ELSE 'the topic ' || p.namespace || '/' || p.topic END
               || ' is paused by ' || p.actor || ' since ' || strftime('%Y-%m-%dT%H:%M:%SZ', p.at / 1000000, 'unixepoch') || coalesce(': ' || p.reason, ''),
           json_object('namespace', nullif(p.namespace, ''), 'topic', nullif(p.topic, ''), 'actor', p.actor, 'since',
               strftime('%Y-%m-%dT%H:%M:%SZ', p.at / 1000000, 'unixepoch'), 'why', p.reason),
           'outbox resume' || coalesce(' --namespace ' || nullif(p.namespace, ''), '') || coalesce(' --topic ' || nullif(p.topic, ''), '')
      FROM last l JOIN outbox_pause p ON p.sink = '' AND (p.namespace = '' OR l.namespace GLOB replace(p.namespace, '[', '[[]'))
       AND (p.topic = '' OR l.topic GLOB replace(p.topic, '[', '[[]'))
    UNION ALL
    SELECT l.step, 2, l.id, 'disabled', 'deliveries are switched off (enabled off) by ' || t.actor || ' since '
               || strftime('%Y-%m-%dT%H:%M:%SZ', t.at / 1000000, 'unixepoch') || coalesce(': ' || t.reason, ''),
           json_object('actor', t.actor, 'since', strftime('%Y-%m-%dT%H:%M:%SZ', t.at / 1000000, 'unixepoch'), 'why', t.reason), 'outbox tune enabled --reset'
      FROM last l JOIN outbox_tuning t ON t.name = 'enabled' AND t.value = 'off'
    UNION ALL
    SELECT l.step, 3, l.id, 'no_relay', 'no relay is running',
           json_object('last_seen', (SELECT strftime('%Y-%m-%dT%H:%M:%SZ', max(r.seen_at) / 1000000, 'unixepoch') FROM outbox_relay r)), 'outbox run'
      FROM last l WHERE NOT EXISTS (SELECT 1 FROM alive)
    UNION ALL
    SELECT l.step, 4, l.id, 'disabled', 'the relays that run are disabled in their configuration',
           json_object('relays', (SELECT json_group_array(a.worker) FROM alive a)), 'outbox tune enabled on'
      FROM last l WHERE EXISTS (SELECT 1 FROM alive) AND NOT EXISTS (SELECT 1 FROM alive a WHERE a.enabled)
       AND NOT EXISTS (SELECT 1 FROM outbox_tuning t WHERE t.name = 'enabled')
    UNION ALL
    SELECT l.step, 5, l.id, 'no_route', 'no running relay has a route for ' || l.namespace || '/' || l.topic || ' with its headers',
           json_object('relays', (SELECT json_group_array(a.worker) FROM alive a)), 'add a route to the configuration of a relay, and reload it'
      FROM last l WHERE EXISTS (SELECT 1 FROM alive) AND NOT EXISTS (SELECT 1 FROM alive a WHERE a.sink IS NOT NULL OR a.unsure)
    UNION ALL
    SELECT l.step, 6, l.id, 'sink_paused', 'its sink ' || p.sink || ' is paused by ' || p.actor || ' since '
               || strftime('%Y-%m-%dT%H:%M:%SZ', p.at / 1000000, 'unixepoch') || coalesce(': ' || p.reason, ''),
           json_object('sink', p.sink, 'actor', p.actor, 'since', strftime('%Y-%m-%dT%H:%M:%SZ', p.at / 1000000, 'unixepoch'), 'why', p.reason),
           'outbox resume --sink ' || p.sink
      FROM last l JOIN outbox_pause p ON p.sink <> '' AND p.sink IN (SELECT a.sink FROM alive a)
    UNION ALL
    SELECT l.step, 7, l.id, 'breaker_open', 'deliveries to its sink ' || s.name || ' are suspended at the relay ' || s.relay || coalesce(' since ' || s.since, '')
               || ' (' || coalesce(s.cause, '') || '); last error: ' || coalesce(s.code || ': ', '') || coalesce(s.error, '') || '; next probe: '
               || coalesce(s.next_probe, 'now'),
           json_object('sink', s.name, 'relay', s.relay, 'since', s.since, 'cause', s.cause, 'code', s.code, 'error', s.error, 'next_probe', s.next_probe,
               'failed', s.failed), 'fix the receiver; then the next probe resumes deliveries'
      FROM last l JOIN alive a JOIN outbox_sinks s ON s.relay = a.worker AND s.name = a.sink AND s.breaker <> 'closed'
    UNION ALL
    SELECT l.step, 8, l.id, 'limited', 'the receiver of its sink ' || s.name || ' asked to wait until ' || s.limited_until,
           json_object('sink', s.name, 'relay', s.relay, 'until', s.limited_until), 'wait, or ask the receiver for a higher limit'
      FROM last l JOIN alive a JOIN outbox_sinks s ON s.relay = a.worker AND s.name = a.sink
       AND s.limited_until > strftime('%Y-%m-%dT%H:%M:%S', ?2 / 1000000, 'unixepoch')
)
SELECT step, id, state, reason, facts, command
  FROM (SELECT * FROM own
        UNION ALL
        SELECT l.step, 9, l.id, 'due', 'it is due since ' || l.due_text || ', and nothing is in its way: the next claim takes it',
               json_object('due', l.due_text), NULL
          FROM last l WHERE NOT EXISTS (SELECT 1 FROM own o WHERE o.step = l.step)
        UNION ALL
        SELECT 1, 0, ?1, 'removed', 'retention removed it; its last attempt was number ' || max(a.attempt_no),
               json_object('attempts', max(a.attempt_no)), NULL
          FROM outbox_archived x JOIN outbox_attempt a ON a.n = x.n WHERE x.id = ?1 AND NOT EXISTS (SELECT 1 FROM who) HAVING count(*) > 0
        UNION ALL
        SELECT 1, 0, ?1, 'erased', 'there is no such message any more, or there never was: ' || t.actor || ' erased some at '
                   || strftime('%Y-%m-%dT%H:%M:%SZ', t.at / 1000000, 'unixepoch') || ' (' || t.action || ')',
               json_object('actor', t.actor, 'at', strftime('%Y-%m-%dT%H:%M:%SZ', t.at / 1000000, 'unixepoch'), 'action', t.action), NULL
          FROM outbox_act t
         WHERE t.n = (SELECT max(x.n) FROM outbox_act x WHERE x.action IN ('erase_tenant', 'erase_subject') AND x.at >= ?3)
           AND NOT EXISTS (SELECT 1 FROM who) AND NOT EXISTS (SELECT 1 FROM outbox_archived x WHERE x.id = ?1)
        UNION ALL
        SELECT 1, 0, ?1, 'unknown', 'there is no such message: its transaction was not committed, or retention removed it, or the id is wrong',
               json_object(), 'check that the producer commits'
         WHERE NOT EXISTS (SELECT 1 FROM who) AND NOT EXISTS (SELECT 1 FROM outbox_archived x WHERE x.id = ?1)
           AND NOT EXISTS (SELECT 1 FROM outbox_act x WHERE x.action IN ('erase_tenant', 'erase_subject') AND x.at >= ?3))
 ORDER BY step, place
