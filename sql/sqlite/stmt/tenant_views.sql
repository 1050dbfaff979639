-- tenant_views: temporary views before the tables and views of the same names, which show the rows of one tenant. Statements name tables
-- without a schema, so these come first; the authorizer (rights.c) refuses what is read past them.
CREATE TEMP TABLE outbox_session (tenant_id TEXT);
CREATE TEMP VIEW outbox_message AS SELECT x.* FROM main.outbox_message x WHERE x.tenant_id = (SELECT tenant_id FROM temp.outbox_session);
CREATE TEMP VIEW outbox_queue AS SELECT x.* FROM main.outbox_queue x WHERE x.tenant_id = (SELECT tenant_id FROM temp.outbox_session);
CREATE TEMP VIEW outbox_archived AS SELECT x.* FROM main.outbox_archived x WHERE x.tenant_id = (SELECT tenant_id FROM temp.outbox_session);
CREATE TEMP VIEW outbox_dedupe AS SELECT x.* FROM main.outbox_dedupe x WHERE x.tenant_id = (SELECT tenant_id FROM temp.outbox_session);
CREATE TEMP VIEW outbox_stream AS SELECT x.* FROM main.outbox_stream x WHERE x.tenant_id = (SELECT tenant_id FROM temp.outbox_session);
CREATE TEMP VIEW outbox_act AS SELECT x.* FROM main.outbox_act x WHERE x.tenant_id = (SELECT tenant_id FROM temp.outbox_session);
CREATE TEMP VIEW outbox_event AS SELECT x.* FROM main.outbox_event x WHERE x.tenant_id = (SELECT tenant_id FROM temp.outbox_session);
CREATE TEMP VIEW outbox_hook_failure AS SELECT x.* FROM main.outbox_hook_failure x WHERE x.tenant_id = (SELECT tenant_id FROM temp.outbox_session);
CREATE TEMP VIEW outbox_state AS SELECT x.* FROM main.outbox_state x WHERE x.tenant_id = (SELECT tenant_id FROM temp.outbox_session);
CREATE TEMP VIEW outbox_messages AS SELECT x.* FROM main.outbox_messages x WHERE x.tenant_id = (SELECT tenant_id FROM temp.outbox_session);
CREATE TEMP VIEW outbox_attempts AS SELECT x.* FROM main.outbox_attempts x WHERE x.tenant_id = (SELECT tenant_id FROM temp.outbox_session);
CREATE TEMP VIEW outbox_dead_letters AS SELECT x.* FROM main.outbox_dead_letters x WHERE x.tenant_id = (SELECT tenant_id FROM temp.outbox_session);
CREATE TEMP VIEW outbox_acts AS SELECT x.* FROM main.outbox_acts x WHERE x.tenant_id = (SELECT tenant_id FROM temp.outbox_session);
CREATE TEMP VIEW outbox_attempt AS SELECT x.* FROM main.outbox_attempt x
 WHERE EXISTS (SELECT 1 FROM main.outbox_message m WHERE m.n = x.n AND m.tenant_id = (SELECT tenant_id FROM temp.outbox_session))
    OR EXISTS (SELECT 1 FROM main.outbox_archived m WHERE m.n = x.n AND m.tenant_id = (SELECT tenant_id FROM temp.outbox_session));
CREATE TEMP VIEW outbox_dead AS SELECT x.* FROM main.outbox_dead x
 WHERE EXISTS (SELECT 1 FROM main.outbox_message m WHERE m.n = x.n AND m.tenant_id = (SELECT tenant_id FROM temp.outbox_session))
    OR EXISTS (SELECT 1 FROM main.outbox_archived m WHERE m.n = x.n AND m.tenant_id = (SELECT tenant_id FROM temp.outbox_session));
