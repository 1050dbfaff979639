-- Enqueue: the only way in, for every language.
--
--   INSERT INTO outbox (topic, payload) VALUES ('orders.paid', '{"id": 42}');
--   SELECT id, seq, created FROM outbox_last;        -- in the same transaction
--
-- The triggers rely on no pragma of the producer's connection and on no conflict clause: the OR REPLACE or OR IGNORE of
-- the producer's own statement would override any in here. Errors are raised with RAISE(ABORT), which they do not
-- override; the texts begin with the SQLSTATE that PostgreSQL raises for the same mistake.
--
-- JSON is checked by reading it with json_each, which fails with "malformed JSON": SQLite before 3.41 treats json_valid
-- as unsafe in a trigger if the connection has trusted_schema off.
--
-- Steps: 1 check, unless it is plainly an ordinary message · 2 answer and return for a duplicate · 3 write the message
-- · 4 the queue, unless it is an ordinary one · 5 what goes with a key, a dedupe key, an encoding.
--
-- Speed. Each run of a trigger clears and releases memory for all of its program, used or not. So what few messages need
-- is not in outbox_enqueue but in procedures. A procedure is a BEFORE UPDATE trigger on a table of its own, of one row,
-- whose columns are the arguments; it is called by an UPDATE, and ends with RAISE(IGNORE), so nothing is written to that
-- table. A condition of the UPDATE that is about NEW alone is tested before any table is opened.
-- When an INSERT selects, and its table has triggers or was read anywhere before in the same trigger, SQLite builds a
-- temporary table for it, each time. Hence the tables written here have no insert guards, and SQLite assigns the number
-- of the message.

-- What a producer reads after its enqueue, in the same transaction. One writer at a time: the newest message is its
-- own.
CREATE VIEW outbox_last AS
    SELECT c.id, c.seq, 0 AS created
      FROM outbox_duplicate c
     WHERE c.one = 1 AND c.after_n = (SELECT coalesce(max(x.n), 0) FROM outbox_message x)
    UNION ALL
    SELECT m.id, m.seq, 1
      FROM outbox_message m
     WHERE m.n = (SELECT max(x.n) FROM outbox_message x)
       AND NOT EXISTS (SELECT 1 FROM outbox_duplicate c WHERE c.one = 1 AND c.after_n = m.n);

-- The decompressed size that a zstd frame declares in its header, which is what counts; null if it declares none.
-- Readers check what follows the header. https://www.rfc-editor.org/rfc/rfc8878#section-3.1.1.1
CREATE VIEW outbox_frame AS
    SELECT f.n, (SELECT sum((instr('123456789ABCDEF', substr(f.hex, 2 * (f.start + b.i) + 1, 1)) * 16
                             + instr('123456789ABCDEF', substr(f.hex, 2 * (f.start + b.i) + 2, 1))) << 8 * b.i)
                        + CASE f.width WHEN 2 THEN 256 ELSE 0 END
                   FROM (SELECT 0 AS i UNION ALL SELECT 1 UNION ALL SELECT 2 UNION ALL SELECT 3
                         UNION ALL SELECT 4 UNION ALL SELECT 5 UNION ALL SELECT 6 UNION ALL SELECT 7) b
                  WHERE b.i < f.width AND f.type = 'blob' AND substr(f.hex, 1, 8) = '28B52FFD' AND f.flags & 3 = 0
                    AND length(f.hex) >= 2 * (f.start + f.width)) AS size
      FROM (SELECT h.n, h.type, h.hex, h.flags, CASE WHEN h.flags & 32 THEN 5 ELSE 6 END AS start,
                   CASE h.flags >> 6 WHEN 0 THEN (h.flags & 32) / 32 WHEN 1 THEN 2 WHEN 2 THEN 4 ELSE 8 END AS width
              FROM (SELECT m.n, typeof(m.payload) AS type, hex(substr(m.payload, 1, 14)) AS hex,
                           instr('123456789ABCDEF', substr(hex(substr(m.payload, 5, 1)), 1, 1)) * 16
                           + instr('123456789ABCDEF', substr(hex(substr(m.payload, 5, 1)), 2, 1)) AS flags
                      FROM outbox_message m WHERE m.encoding IS NOT NULL) h) f;

CREATE TRIGGER outbox_enqueue INSTEAD OF INSERT ON outbox
BEGIN
    -- 1. Calls outbox_check, unless this is plain ASCII within the limits, with none of the rarer fields, for a lane
    -- that there is. substr stops at a NUL character, so equality also says that there is none.
    UPDATE outbox_call_check
       SET topic = NEW.topic, payload = NEW.payload, key = NEW.key, dedupe_key = NEW.dedupe_key,
           tenant_id = NEW.tenant_id, namespace = NEW.namespace, subject = NEW.subject, recipient = NEW.recipient,
           headers = NEW.headers, priority = NEW.priority, deliver_after = NEW.deliver_after, expires_at = NEW.expires_at,
           max_attempts = NEW.max_attempts, correlation_id = NEW.correlation_id, content_type = NEW.content_type,
           encoding = NEW.encoding,
           for_readers = coalesce(NEW.id, NEW.seq, NEW.status, NEW.created_at, NEW.payload_json, NEW.idempotency_key,
                                  NEW.retry_count, NEW.last_error, NEW.last_attempt_at, NEW.next_attempt_at, NEW.published_at)
     WHERE one = 1 AND (
           coalesce(NEW.content_type, NEW.encoding, NEW.headers, NEW.deliver_after, NEW.expires_at, NEW.id, NEW.seq, NEW.status,
                    NEW.created_at, NEW.payload_json, NEW.idempotency_key, NEW.retry_count, NEW.last_error,
                    NEW.last_attempt_at, NEW.next_attempt_at, NEW.published_at) IS NULL
           AND typeof(NEW.topic) = 'text' AND NEW.topic NOT GLOB '*[^!-)+->@-~]*'
           AND substr(NEW.topic, 1, @topic_max@) = NEW.topic AND NEW.topic <> ''
           AND (NEW.namespace IS NULL OR (typeof(NEW.namespace) = 'text' AND NEW.namespace NOT GLOB '*[^!-)+->@-~]*'
                AND substr(NEW.namespace, 1, @namespace_max@) = NEW.namespace AND NEW.namespace <> ''))
           AND (NEW.key IS NULL OR (typeof(NEW.key) = 'text' AND NEW.key NOT GLOB '*[^ -~]*'
                AND substr(NEW.key, 1, @key_max@) = NEW.key AND NEW.key <> ''))
           AND (NEW.dedupe_key IS NULL OR (typeof(NEW.dedupe_key) = 'text' AND NEW.dedupe_key NOT GLOB '*[^ -~]*'
                AND substr(NEW.dedupe_key, 1, @dedupe_key_max@) = NEW.dedupe_key AND NEW.dedupe_key <> ''))
           AND (NEW.subject IS NULL OR (typeof(NEW.subject) = 'text' AND NEW.subject NOT GLOB '*[^ -~]*'
                AND substr(NEW.subject, 1, @subject_max@) = NEW.subject AND NEW.subject <> ''))
           AND (NEW.recipient IS NULL OR (typeof(NEW.recipient) = 'text' AND NEW.recipient NOT GLOB '*[^ -~]*'
                AND substr(NEW.recipient, 1, @recipient_max@) = NEW.recipient AND NEW.recipient <> ''))
           AND (NEW.correlation_id IS NULL OR (typeof(NEW.correlation_id) = 'text' AND NEW.correlation_id NOT GLOB '*[^ -~]*'
                AND substr(NEW.correlation_id, 1, @correlation_id_max@) = NEW.correlation_id AND NEW.correlation_id <> ''))
           AND (NEW.tenant_id IS NULL OR (typeof(NEW.tenant_id) = 'text' AND length(CAST(NEW.tenant_id AS BLOB)) = 36
                AND NEW.tenant_id GLOB '????????-????-????-????-????????????'
                AND length(replace(NEW.tenant_id, '-', '')) = 32 AND NEW.tenant_id NOT GLOB '*[^-0-9a-fA-F]*'))
           AND (NEW.priority IS NULL
                OR (typeof(NEW.priority) = 'integer' AND NEW.priority BETWEEN @priority_min@ AND @priority_max@))
           AND (NEW.max_attempts IS NULL OR (typeof(NEW.max_attempts) = 'integer'
                AND NEW.max_attempts BETWEEN @max_attempts_min@ AND @max_attempts_max@))
           AND typeof(NEW.payload) = 'text' AND NEW.payload NOT GLOB '*\u*'
           AND substr(NEW.payload, 1, 1073741824) = NEW.payload
           AND EXISTS (SELECT 1 FROM json_each(NEW.payload)) >= 0
           AND EXISTS (SELECT 1 FROM outbox_lane l
                        WHERE l.namespace = coalesce(NEW.namespace, 'default') AND l.topic = NEW.topic
                          AND length(CAST(NEW.payload AS BLOB)) <= l.max_payload)) IS NOT TRUE;

    -- 2. RAISE(IGNORE) ends the trigger without an error and without undoing anything.
    UPDATE outbox_call_dedupe
       SET namespace = coalesce(NEW.namespace, 'default'), topic = NEW.topic, dedupe_key = NEW.dedupe_key,
           tenant_id = lower(NEW.tenant_id)
     WHERE one = 1 AND NEW.dedupe_key IS NOT NULL;
    SELECT RAISE(IGNORE)
      FROM outbox_lane l
      JOIN outbox_dedupe d ON d.namespace = l.namespace AND d.topic = l.dedupe_topic AND d.dedupe_key = NEW.dedupe_key
     WHERE NEW.dedupe_key IS NOT NULL AND l.namespace = coalesce(NEW.namespace, 'default') AND l.topic = NEW.topic;

    -- 3. 'now' is the same all through a statement, so the uses of it agree. The id is a uuid v7: time, then chance.
    INSERT INTO outbox_message (id, lane, created_at, priority, max_attempts, deliver_after, expires_at, tenant_id, key, seq,
                                dedupe_key, subject, recipient, correlation_id, headers, content_type, encoding, bytes,
                                payload)
    SELECT printf('%08x-%04x-7%03x-%04x-%012x',
               CAST((julianday('now') - 2440587.5) * 86400000.0 + 0.5 AS INTEGER) >> 16,
               CAST((julianday('now') - 2440587.5) * 86400000.0 + 0.5 AS INTEGER) & 65535,
               random() & 4095, 32768 | (random() & 16383), random() & 281474976710655),
           l.n, CAST((julianday('now') - 2440587.5) * 86400000.0 + 0.5 AS INTEGER) * 1000,
           coalesce(NEW.priority, 4), NEW.max_attempts,
           CASE typeof(NEW.deliver_after) WHEN 'text'
                THEN CAST((julianday(NEW.deliver_after) - 2440587.5) * 86400000.0 + 0.5 AS INTEGER) * 1000
                ELSE NEW.deliver_after END,
           CASE typeof(NEW.expires_at) WHEN 'text'
                THEN CAST((julianday(NEW.expires_at) - 2440587.5) * 86400000.0 + 0.5 AS INTEGER) * 1000
                ELSE NEW.expires_at END,
           lower(NEW.tenant_id), NEW.key,
           CASE WHEN NEW.key IS NOT NULL
                THEN coalesce((SELECT s.seq FROM outbox_stream s
                                WHERE s.namespace = l.namespace AND s.topic = l.order_topic
                                  AND s.tenant_id = coalesce(lower(NEW.tenant_id), '') AND s.key = NEW.key), 0) + 1 END,
           NEW.dedupe_key, NEW.subject, NEW.recipient, NEW.correlation_id, NEW.headers, NEW.content_type,
           NEW.encoding,
           CASE WHEN coalesce(NEW.key, NEW.deliver_after, NEW.expires_at, NEW.encoding, nullif(NEW.priority, 4)) IS NULL
                THEN length(CAST(NEW.payload AS BLOB)) END,
           CASE WHEN coalesce(NEW.content_type, NEW.encoding) IS NULL THEN CAST(NEW.payload AS TEXT) ELSE CAST(NEW.payload AS BLOB) END
      FROM outbox_lane l WHERE l.namespace = coalesce(NEW.namespace, 'default') AND l.topic = NEW.topic;

    -- 4. An ordinary message stays in the log: outbox_log. For a message with a key, outbox_order does this.
    INSERT INTO outbox_queue (n, state, lane, prio, due, tenant_id, expires_at, bytes, max_attempts, updated_at)
    SELECT m.n, 0, m.lane, m.priority,
           min(coalesce(m.deliver_after, m.created_at), coalesce(m.expires_at, m.deliver_after, m.created_at)),
           m.tenant_id, m.expires_at, length(CAST(NEW.payload AS BLOB)), coalesce(m.max_attempts, l.max_attempts), m.created_at
      FROM outbox_message m CROSS JOIN outbox_lane l
     WHERE NEW.key IS NULL AND coalesce(NEW.deliver_after, NEW.expires_at, NEW.encoding, nullif(NEW.priority, 4)) IS NOT NULL
       AND m.n = last_insert_rowid() AND l.namespace = coalesce(NEW.namespace, 'default') AND l.topic = NEW.topic;

    -- 5.
    UPDATE outbox_call_key
       SET (n, namespace, topic, tenant_id, key, lane, prio, due, sid, seq, expires_at, bytes, max_attempts, created_at) = (
            SELECT m.n, l.namespace, l.order_topic, coalesce(m.tenant_id, ''), m.key, m.lane, m.priority,
                   min(coalesce(m.deliver_after, m.created_at), coalesce(m.expires_at, m.deliver_after, m.created_at)),
                   coalesce(s.sid, m.n), m.seq, m.expires_at, length(CAST(NEW.payload AS BLOB)),
                   coalesce(m.max_attempts, l.max_attempts), m.created_at
              FROM outbox_message m CROSS JOIN outbox_lane l
              LEFT JOIN outbox_stream s ON s.namespace = l.namespace AND s.topic = l.order_topic
                   AND s.tenant_id = coalesce(m.tenant_id, '') AND s.key = m.key
             WHERE m.n = last_insert_rowid() AND l.namespace = coalesce(NEW.namespace, 'default') AND l.topic = NEW.topic)
     WHERE one = 1 AND NEW.key IS NOT NULL;
    UPDATE outbox_call_dedupe
       SET keep = 1, namespace = coalesce(NEW.namespace, 'default'), topic = NEW.topic
     WHERE one = 1 AND NEW.dedupe_key IS NOT NULL;
    UPDATE outbox_call_frame
       SET namespace = coalesce(NEW.namespace, 'default'), topic = NEW.topic
     WHERE one = 1 AND NEW.encoding IS NOT NULL;
END;

-- Refuses what is malformed, and finds the words for it; makes the lane if there is none; refuses what the settings
-- forbid.
CREATE TRIGGER outbox_check BEFORE UPDATE ON outbox_call_check
BEGIN
    SELECT CASE
        WHEN NEW.for_readers IS NOT NULL
            THEN RAISE(ABORT, 'OB001: "id", "seq", "status", "created_at" and the other columns for readers are not set by producers; "dedupe_key" and "payload" are the columns to write')
        WHEN NEW.topic IS NULL THEN RAISE(ABORT, 'OB001: "topic" is missing: give @topic_range@')
        WHEN 'blob' IN (typeof(NEW.topic), typeof(NEW.namespace), typeof(NEW.key), typeof(NEW.dedupe_key),
                        typeof(NEW.subject), typeof(NEW.recipient), typeof(NEW.correlation_id), typeof(NEW.content_type),
                        typeof(NEW.tenant_id), typeof(NEW.headers))
            THEN RAISE(ABORT, 'OB001: only "payload" takes a blob; the other columns take text')
        WHEN length(CAST(NEW.topic AS BLOB)) NOT BETWEEN @topic_min@ AND @topic_max@
            THEN RAISE(ABORT, 'OB001: "topic" takes @topic_range@')
        WHEN length(CAST(NEW.namespace AS BLOB)) NOT BETWEEN @namespace_min@ AND @namespace_max@
            THEN RAISE(ABORT, 'OB001: "namespace" takes @namespace_range@')
        WHEN length(CAST(NEW.key AS BLOB)) NOT BETWEEN @key_min@ AND @key_max@
            THEN RAISE(ABORT, 'OB001: "key" takes @key_range@')
        WHEN length(CAST(NEW.dedupe_key AS BLOB)) NOT BETWEEN @dedupe_key_min@ AND @dedupe_key_max@
            THEN RAISE(ABORT, 'OB001: "dedupe_key" takes @dedupe_key_range@')
        WHEN length(CAST(NEW.subject AS BLOB)) NOT BETWEEN @subject_min@ AND @subject_max@
            THEN RAISE(ABORT, 'OB001: "subject" takes @subject_range@')
        WHEN length(CAST(NEW.recipient AS BLOB)) NOT BETWEEN @recipient_min@ AND @recipient_max@
            THEN RAISE(ABORT, 'OB001: "recipient" takes @recipient_range@')
        WHEN length(CAST(NEW.correlation_id AS BLOB)) NOT BETWEEN @correlation_id_min@ AND @correlation_id_max@
            THEN RAISE(ABORT, 'OB001: "correlation_id" takes @correlation_id_range@')
        WHEN length(CAST(NEW.content_type AS BLOB)) NOT BETWEEN @content_type_min@ AND @content_type_max@
            THEN RAISE(ABORT, 'OB001: "content_type" takes @content_type_range@')
        WHEN NEW.topic || coalesce(NEW.namespace, '')
                GLOB '*[' || char(1) || '-' || char(32) || '*?' || char(127) || '-' || char(160, 5760, 8192) || '-'
                     || char(8202, 8232, 8233, 8239, 8287, 12288) || ']*'
            THEN RAISE(ABORT, 'OB001: "topic" and "namespace" take no spaces, no control characters, no "*" and no "?"')
        WHEN coalesce(NEW.key, '') || coalesce(NEW.dedupe_key, '') || coalesce(NEW.subject, '')
                || coalesce(NEW.recipient, '') || coalesce(NEW.correlation_id, '') || coalesce(NEW.content_type, '')
                GLOB '*[' || char(1) || '-' || char(31) || char(127) || '-' || char(159) || ']*'
            THEN RAISE(ABORT, 'OB001: "key", "dedupe_key", "subject", "recipient", "correlation_id" and "content_type" take no control characters')
        WHEN instr(CAST(NEW.topic || coalesce(NEW.namespace, '') || coalesce(NEW.key, '') || coalesce(NEW.dedupe_key, '')
                || coalesce(NEW.subject, '') || coalesce(NEW.recipient, '') || coalesce(NEW.correlation_id, '')
                || coalesce(NEW.content_type, '') || coalesce(NEW.tenant_id, '') || coalesce(NEW.headers, '') AS BLOB),
                x'00')
            THEN RAISE(ABORT, 'OB001: a text contains a NUL character')
        -- UTF-8: characters are walked over, 8 that are ASCII together, or one that is the same when it is decoded and encoded
        -- again. U+FFFE and U+FFFF, which SQLite decodes to U+FFFD, are characters. A payload is checked when it is claimed:
        -- for long texts a walk takes too long.
        WHEN EXISTS (SELECT 1
              FROM (SELECT NEW.topic || '/' || coalesce(NEW.namespace, '') || '/' || coalesce(NEW.key, '') || '/'
                           || coalesce(NEW.dedupe_key, '') || '/' || coalesce(NEW.subject, '') || '/'
                           || coalesce(NEW.recipient, '') || '/' || coalesce(NEW.correlation_id, '') || '/'
                           || coalesce(NEW.content_type, '') || '/' || coalesce(NEW.headers, '') AS text) f
             WHERE f.text GLOB '*[^' || char(1) || '-' || char(127) || ']*'
               AND EXISTS (WITH RECURSIVE walk (i) AS (
                        SELECT 1
                        UNION ALL
                        SELECT walk.i + CASE
                            WHEN CAST(substr(CAST(f.text AS BLOB), walk.i, 8) AS TEXT)
                                NOT GLOB '*[^' || char(1) || '-' || char(127) || ']*' THEN 8
                            WHEN substr(CAST(f.text AS BLOB), walk.i, 1) < x'80' THEN 1
                            WHEN substr(CAST(f.text AS BLOB), walk.i, 2)
                                = CAST(char(unicode(CAST(substr(CAST(f.text AS BLOB), walk.i, 2) AS TEXT))) AS BLOB) THEN 2
                            WHEN substr(CAST(f.text AS BLOB), walk.i, 3)
                                = CAST(char(unicode(CAST(substr(CAST(f.text AS BLOB), walk.i, 3) AS TEXT))) AS BLOB) THEN 3
                            WHEN substr(CAST(f.text AS BLOB), walk.i, 4)
                                = CAST(char(unicode(CAST(substr(CAST(f.text AS BLOB), walk.i, 4) AS TEXT))) AS BLOB) THEN 4
                            WHEN substr(CAST(f.text AS BLOB), walk.i, 3) IN (x'EFBFBE', x'EFBFBF') THEN 3
                            END -- null: nothing of these, and the walk ends here
                          FROM walk
                         WHERE walk.i <= length(CAST(f.text AS BLOB)))
                    SELECT 1 FROM walk WHERE walk.i IS NULL))
            THEN RAISE(ABORT, 'OB001: a text is not valid UTF-8')
        WHEN NEW.payload IS NULL
            THEN RAISE(ABORT, 'OB001: "payload" is missing: give JSON text (''null'' is one), or bytes with a content_type')
        WHEN NEW.encoding IS NOT NULL AND (typeof(NEW.encoding) <> 'text' OR NEW.encoding <> 'zstd')
            THEN RAISE(ABORT, 'OB001: "encoding" takes zstd, or null for a payload as it is')
        WHEN coalesce(NEW.content_type, NEW.encoding) IS NULL AND typeof(NEW.payload) = 'blob'
            THEN RAISE(ABORT, 'OB001: "payload" is a blob: name its content_type, or give JSON as text')
        WHEN coalesce(NEW.content_type, NEW.encoding) IS NULL
             AND (instr(CAST(NEW.payload AS BLOB), x'00') OR EXISTS (SELECT 1 FROM json_each(NEW.payload)) < 0)
            THEN RAISE(ABORT, 'OB001: "payload" is not valid JSON: correct it, or name its content_type')
        -- An escape that stands for no character: NUL, or half of a surrogate pair. Escaped backslashes go first, and
        -- the padding lets the patterns look back from the very beginning.
        WHEN coalesce(NEW.content_type, NEW.encoding) IS NULL AND instr(NEW.payload, '\u')
             AND EXISTS (SELECT 1 FROM (SELECT 'xxxxxx' || replace(NEW.payload, '\\', '') AS text) j
                          WHERE instr(j.text, '\u0000')
                             OR j.text GLOB '*\u[dD][89abAB]??[^\]*'
                             OR j.text GLOB '*\u[dD][89abAB]??\[^u]*'
                             OR j.text GLOB '*\u[dD][89abAB]??\u[^dD]*'
                             OR j.text GLOB '*\u[dD][89abAB]??\u[dD][^c-fC-F]*'
                             OR j.text GLOB '*[^\]?????\u[dD][c-fC-F]*'
                             OR j.text GLOB '*\[^u]????\u[dD][c-fC-F]*'
                             OR j.text GLOB '*\u[^dD]???\u[dD][c-fC-F]*'
                             OR j.text GLOB '*\u[dD][^89abAB]??\u[dD][c-fC-F]*')
            THEN RAISE(ABORT, 'OB001: "payload" has an escape that is no character: \u0000, or half of a surrogate pair')
        WHEN NEW.priority IS NOT NULL AND (typeof(NEW.priority) <> 'integer' OR NEW.priority NOT BETWEEN @priority_min@ AND @priority_max@)
            THEN RAISE(ABORT, 'OB001: "priority" takes @priority_range@; the highest goes first, 4 is the default')
        WHEN NEW.max_attempts IS NOT NULL
                AND (typeof(NEW.max_attempts) <> 'integer' OR NEW.max_attempts NOT BETWEEN @max_attempts_min@ AND @max_attempts_max@)
            THEN RAISE(ABORT, 'OB001: "max_attempts" takes @max_attempts_range@')
        WHEN NEW.tenant_id IS NOT NULL AND (NEW.tenant_id NOT GLOB '????????-????-????-????-????????????'
                OR length(replace(NEW.tenant_id, '-', '')) <> 32 OR replace(NEW.tenant_id, '-', '') GLOB '*[^0-9a-fA-F]*')
            THEN RAISE(ABORT, 'OB001: "tenant_id" is not a uuid such as 0a0b0c0d-1111-4222-8333-444444444444')
        WHEN NEW.deliver_after IS NOT NULL
                AND CASE typeof(NEW.deliver_after) WHEN 'integer' THEN NEW.deliver_after
                         WHEN 'text' THEN (julianday(NEW.deliver_after) - 2440587.5) * 86400000.0 ELSE -1 END NOT BETWEEN @moment_min@
                    AND @moment_max@
            THEN RAISE(ABORT, 'OB001: "deliver_after" takes a text such as 2030-01-31T08:00:00Z, or microseconds since 1970')
        WHEN typeof(NEW.deliver_after) = 'text' AND julianday(NEW.deliver_after) IS NULL
            THEN RAISE(ABORT, 'OB001: "deliver_after" is not a time: give a text such as 2030-01-31T08:00:00Z, or microseconds since 1970')
        WHEN NEW.expires_at IS NOT NULL
                AND CASE typeof(NEW.expires_at) WHEN 'integer' THEN NEW.expires_at
                         WHEN 'text' THEN (julianday(NEW.expires_at) - 2440587.5) * 86400000.0 ELSE -1 END NOT BETWEEN @moment_min@
                    AND @moment_max@
            THEN RAISE(ABORT, 'OB001: "expires_at" takes a text such as 2030-01-31T08:00:00Z, or microseconds since 1970')
        WHEN typeof(NEW.expires_at) = 'text' AND julianday(NEW.expires_at) IS NULL
            THEN RAISE(ABORT, 'OB001: "expires_at" is not a time: give a text such as 2030-01-31T08:00:00Z, or microseconds since 1970')
        WHEN NEW.headers IS NULL THEN NULL
        WHEN typeof(NEW.headers) <> 'text' OR (SELECT h.type FROM json_tree(NEW.headers) h LIMIT 1) <> 'object'
            THEN RAISE(ABORT, 'OB001: "headers" takes a JSON object of strings, e.g. {"traceparent": "00-..."}')
        WHEN EXISTS (SELECT 1 FROM json_each(NEW.headers) h WHERE h.type <> 'text')
            THEN RAISE(ABORT, 'OB001: the values of "headers" are strings')
        WHEN instr(NEW.headers, '\u0000') OR EXISTS (SELECT 1 FROM json_each(NEW.headers) h
                WHERE h.value GLOB '*[' || char(1) || '-' || char(31) || char(127) || '-' || char(159) || ']*')
            THEN RAISE(ABORT, 'OB001: a value in "headers" contains a control character')
        WHEN EXISTS (SELECT 1 FROM json_each(NEW.headers) h
                      WHERE length(h.key) NOT BETWEEN @header_name_min@ AND @header_name_max@ OR h.key GLOB '*[^-A-Za-z0-9!#$%&''*+.^_`|~]*')
            THEN RAISE(ABORT, 'OB001: a name in "headers" is not valid: @header_name_min@ to @header_name_max@ letters, digits or any of !#$%&''*+.^_`|~-')
        WHEN (SELECT sum(length(CAST(h.key AS BLOB)) + length(CAST(h.value AS BLOB))) FROM json_each(NEW.headers) h) > @headers_max@
            THEN RAISE(ABORT, 'OB006: the names and values of "headers" take @headers_range@ together')
    END;

    UPDATE outbox_call_lane
       SET namespace = coalesce(NEW.namespace, 'default'), topic = NEW.topic
     WHERE one = 1 AND NOT EXISTS (SELECT 1 FROM outbox_lane l WHERE l.namespace = coalesce(NEW.namespace, 'default')
                                                                 AND l.topic = NEW.topic);
    SELECT RAISE(ABORT, 'OB006: "payload" is over the namespace''s max_payload: store the content elsewhere and send a reference, or raise the limit')
      FROM outbox_lane l
     WHERE l.namespace = coalesce(NEW.namespace, 'default') AND l.topic = NEW.topic
       AND length(CAST(NEW.payload AS BLOB)) > l.max_payload;
    SELECT RAISE(IGNORE);
END;

CREATE TRIGGER outbox_make_lane BEFORE UPDATE ON outbox_call_lane
BEGIN
    INSERT INTO outbox_lane (n, namespace, topic, dedupe_topic, order_topic, tenant_prefix, hold, max_payload,
                             max_attempts, retry_base, retry_cap)
    SELECT (SELECT coalesce(max(l.n), 0) + 1 FROM outbox_lane l), NEW.namespace, NEW.topic,
           CASE coalesce(o.dedupe_scope, s.dedupe_scope) WHEN 'topic' THEN NEW.topic ELSE '' END,
           CASE coalesce(o.order_scope, s.order_scope) WHEN 'topic' THEN NEW.topic ELSE '' END,
           coalesce(o.tenant_prefix, s.tenant_prefix), coalesce(o.on_dead, s.on_dead) = 'hold',
           coalesce(o.max_payload, s.max_payload), coalesce(o.max_attempts, s.max_attempts),
           coalesce(o.retry_base, s.retry_base), coalesce(o.retry_cap, s.retry_cap)
      FROM outbox_namespace s
      LEFT JOIN outbox_namespace o ON o.name = NEW.namespace
     WHERE s.name = '*';
    SELECT RAISE(IGNORE);
END;

-- Refuses a key that is another tenant's, and notes the answer of outbox_last if there is such a message.
CREATE TRIGGER outbox_find_duplicate BEFORE UPDATE OF dedupe_key ON outbox_call_dedupe
BEGIN
    SELECT CASE
        WHEN l.tenant_prefix AND substr(NEW.dedupe_key, 1, 37) <> NEW.tenant_id || '/'
            THEN RAISE(ABORT, 'OB003: "dedupe_key" does not begin with the tenant''s uuid and a slash: do that, or switch tenant_prefix off for the namespace')
        WHEN EXISTS (SELECT 1 FROM outbox_dedupe d
                      WHERE d.namespace = l.namespace AND d.topic = l.dedupe_topic AND d.dedupe_key = NEW.dedupe_key
                        AND d.tenant_id IS NOT NEW.tenant_id)
            THEN RAISE(ABORT, 'OB003: "dedupe_key" belongs to a message of another tenant')
        END
      FROM outbox_lane l WHERE l.namespace = NEW.namespace AND l.topic = NEW.topic;
    UPDATE outbox_duplicate
       SET (id, seq, after_n) = (SELECT d.id, d.seq, (SELECT coalesce(max(m.n), 0) FROM outbox_message m)
                                   FROM outbox_lane l JOIN outbox_dedupe d ON d.namespace = l.namespace
                                        AND d.topic = l.dedupe_topic AND d.dedupe_key = NEW.dedupe_key
                                  WHERE l.namespace = NEW.namespace AND l.topic = NEW.topic)
     WHERE one = 1 AND EXISTS (SELECT 1 FROM outbox_lane l JOIN outbox_dedupe d ON d.namespace = l.namespace
                                    AND d.topic = l.dedupe_topic AND d.dedupe_key = NEW.dedupe_key
                                WHERE l.namespace = NEW.namespace AND l.topic = NEW.topic);
    SELECT RAISE(IGNORE);
END;

-- Counts the message in its key, and queues it: parked, unless nothing is in its way.
CREATE TRIGGER outbox_order BEFORE UPDATE ON outbox_call_key
BEGIN
    INSERT INTO outbox_stream (namespace, topic, tenant_id, key, sid, seq)
    SELECT NEW.namespace, NEW.topic, NEW.tenant_id, NEW.key, NEW.n, 1 WHERE NEW.seq = 1;
    UPDATE outbox_stream SET seq = NEW.seq
     WHERE NEW.seq > 1 AND namespace = NEW.namespace AND topic = NEW.topic AND tenant_id = NEW.tenant_id
       AND key = NEW.key;
    INSERT INTO outbox_queue (n, state, lane, prio, due, sid, seq, tenant_id, expires_at, bytes, max_attempts, updated_at)
    VALUES (NEW.n, CASE WHEN EXISTS (SELECT 1 FROM outbox_queue q WHERE q.sid = NEW.sid AND (q.state <> 1 OR NOT q.prefetch))
                        THEN 2 ELSE 0 END,
            NEW.lane, NEW.prio, NEW.due, NEW.sid, NEW.seq, nullif(NEW.tenant_id, ''), NEW.expires_at, NEW.bytes,
            NEW.max_attempts, NEW.created_at);
    SELECT RAISE(IGNORE);
END;

CREATE TRIGGER outbox_keep_dedupe BEFORE UPDATE OF keep ON outbox_call_dedupe
BEGIN
    INSERT INTO outbox_dedupe (namespace, topic, dedupe_key, tenant_id, id, seq)
    SELECT l.namespace, l.dedupe_topic, m.dedupe_key, m.tenant_id, m.id, m.seq
      FROM outbox_message m CROSS JOIN outbox_lane l
     WHERE m.n = last_insert_rowid() AND l.namespace = NEW.namespace AND l.topic = NEW.topic;
    SELECT RAISE(IGNORE);
END;

-- What counts is the size that the frame declares.
CREATE TRIGGER outbox_check_frame BEFORE UPDATE ON outbox_call_frame
BEGIN
    UPDATE outbox_queue SET bytes = coalesce((SELECT f.size FROM outbox_frame f WHERE f.n = outbox_queue.n), 1 << 63)
     WHERE n = last_insert_rowid();
    SELECT CASE WHEN q.bytes = 1 << 63 -- tells none
            THEN RAISE(ABORT, 'OB001: "payload" is no zstd frame that tells its size: compress it in one call, with the content size in the frame header and without a dictionary')
            ELSE RAISE(ABORT, 'OB006: "payload" stands for more than the namespace''s max_payload: store the content elsewhere and send a reference, or raise the limit')
        END
      FROM outbox_queue q CROSS JOIN outbox_lane l
     WHERE q.n = last_insert_rowid() AND l.namespace = NEW.namespace AND l.topic = NEW.topic
       AND q.bytes NOT BETWEEN 0 AND l.max_payload;
    SELECT RAISE(IGNORE);
END;
