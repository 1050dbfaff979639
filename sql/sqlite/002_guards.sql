-- Guards: what is immutable, what is append-only, and what is derived.
--
-- SQLite has no roles, so these triggers replace PostgreSQL's privileges. They must work with any pragmas of the
-- connection. In particular, INSERT OR REPLACE removes the row it collides with without firing DELETE triggers (unless
-- recursive_triggers is on): hence the BEFORE INSERT guards.
--
-- Only purge and erase_tenant may delete; they open outbox_gate inside their transaction.

CREATE TRIGGER outbox_message_update BEFORE UPDATE ON outbox_message BEGIN
    SELECT RAISE(ABORT, 'outbox_message is immutable');
END;
CREATE TRIGGER outbox_message_delete BEFORE DELETE ON outbox_message
    WHEN NOT EXISTS (SELECT 1 FROM outbox_gate g WHERE OLD.created_at < g.purge_before OR OLD.tenant_id = g.tenant_id)
BEGIN
    SELECT RAISE(ABORT, 'outbox_message is immutable: old messages go by purge, a tenant''s by erase_tenant');
END;

CREATE TRIGGER outbox_attempt_insert BEFORE INSERT ON outbox_attempt
    WHEN NOT EXISTS (SELECT 1 FROM outbox_queue q WHERE q.n = NEW.n AND q.state = 1 AND q.attempts = NEW.attempt_no)
BEGIN
    SELECT RAISE(FAIL, 'outbox_attempt takes only the end of an attempt that is out');
END;
CREATE TRIGGER outbox_attempt_update BEFORE UPDATE ON outbox_attempt BEGIN
    SELECT RAISE(ABORT, 'outbox_attempt is append-only');
END;
CREATE TRIGGER outbox_attempt_delete BEFORE DELETE ON outbox_attempt
    WHEN NOT EXISTS (SELECT 1 FROM outbox_gate g JOIN outbox_message m ON m.n = OLD.n
                      WHERE m.created_at < g.purge_before OR m.tenant_id = g.tenant_id)
     AND NOT EXISTS (SELECT 1 FROM outbox_gate g JOIN outbox_archived m ON m.n = OLD.n
                      WHERE m.created_at < g.purge_before OR m.tenant_id = g.tenant_id)
BEGIN
    SELECT RAISE(ABORT, 'outbox_attempt is append-only: old attempts go by purge, a tenant''s by erase_tenant');
END;

CREATE TRIGGER outbox_act_insert BEFORE INSERT ON outbox_act WHEN EXISTS (SELECT 1 FROM outbox_act a WHERE a.n = NEW.n)
BEGIN
    SELECT RAISE(ABORT, 'outbox_act is append-only: there is such an act');
END;
CREATE TRIGGER outbox_act_update BEFORE UPDATE ON outbox_act BEGIN
    SELECT RAISE(ABORT, 'outbox_act is append-only');
END;
CREATE TRIGGER outbox_act_delete BEFORE DELETE ON outbox_act
    WHEN NOT EXISTS (SELECT 1 FROM outbox_gate g WHERE OLD.tenant_id = g.tenant_id)
BEGIN
    SELECT RAISE(ABORT, 'outbox_act is append-only: a tenant''s acts go by erase_tenant');
END;

CREATE TRIGGER outbox_dedupe_update BEFORE UPDATE ON outbox_dedupe BEGIN
    SELECT RAISE(ABORT, 'outbox_dedupe is append-only');
END;
CREATE TRIGGER outbox_dedupe_delete BEFORE DELETE ON outbox_dedupe
    WHEN NOT EXISTS (SELECT 1 FROM outbox_gate g WHERE OLD.tenant_id = g.tenant_id)
BEGIN
    SELECT RAISE(ABORT, 'outbox_dedupe is append-only: a tenant''s keys go by erase_tenant');
END;

-- An event is not kept; the application's triggers still see it as NEW.
CREATE TRIGGER outbox_event_pass AFTER INSERT ON outbox_event BEGIN
    DELETE FROM outbox_event;
END;

-- The lanes repeat the settings in force.
CREATE VIEW outbox_lane_settings AS
    SELECT l.n,
           CASE coalesce(o.dedupe_scope, s.dedupe_scope) WHEN 'topic' THEN l.topic ELSE '' END AS dedupe_topic,
           CASE coalesce(o.order_scope, s.order_scope) WHEN 'topic' THEN l.topic ELSE '' END AS order_topic,
           coalesce(o.tenant_prefix, s.tenant_prefix) AS tenant_prefix,
           coalesce(o.on_dead, s.on_dead) = 'hold' AS hold,
           coalesce(o.max_payload, s.max_payload) AS max_payload,
           coalesce(o.max_attempts, s.max_attempts) AS max_attempts,
           coalesce(o.retry_base, s.retry_base) AS retry_base,
           coalesce(o.retry_cap, s.retry_cap) AS retry_cap
      FROM outbox_lane l
      JOIN outbox_namespace s ON s.name = '*'
      LEFT JOIN outbox_namespace o ON o.name = l.namespace;

CREATE TRIGGER outbox_namespace_insert AFTER INSERT ON outbox_namespace BEGIN
    UPDATE outbox_lane
       SET (dedupe_topic, order_topic, tenant_prefix, hold, max_payload, max_attempts, retry_base, retry_cap) =
           (SELECT v.dedupe_topic, v.order_topic, v.tenant_prefix, v.hold, v.max_payload, v.max_attempts, v.retry_base,
                   v.retry_cap FROM outbox_lane_settings v WHERE v.n = outbox_lane.n);
END;
CREATE TRIGGER outbox_namespace_update AFTER UPDATE ON outbox_namespace BEGIN
    UPDATE outbox_lane
       SET (dedupe_topic, order_topic, tenant_prefix, hold, max_payload, max_attempts, retry_base, retry_cap) =
           (SELECT v.dedupe_topic, v.order_topic, v.tenant_prefix, v.hold, v.max_payload, v.max_attempts, v.retry_base,
                   v.retry_cap FROM outbox_lane_settings v WHERE v.n = outbox_lane.n);
END;
CREATE TRIGGER outbox_namespace_delete AFTER DELETE ON outbox_namespace BEGIN
    SELECT RAISE(ABORT, 'the settings of "*" stay: change them instead') WHERE OLD.name = '*';
    UPDATE outbox_lane
       SET (dedupe_topic, order_topic, tenant_prefix, hold, max_payload, max_attempts, retry_base, retry_cap) =
           (SELECT v.dedupe_topic, v.order_topic, v.tenant_prefix, v.hold, v.max_payload, v.max_attempts, v.retry_base,
                   v.retry_cap FROM outbox_lane_settings v WHERE v.n = outbox_lane.n);
END;
