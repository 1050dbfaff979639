-- tenant_views_drop: all is seen again.
DROP VIEW IF EXISTS temp.outbox_message;
DROP VIEW IF EXISTS temp.outbox_queue;
DROP VIEW IF EXISTS temp.outbox_archived;
DROP VIEW IF EXISTS temp.outbox_dedupe;
DROP VIEW IF EXISTS temp.outbox_stream;
DROP VIEW IF EXISTS temp.outbox_act;
DROP VIEW IF EXISTS temp.outbox_event;
DROP VIEW IF EXISTS temp.outbox_hook_failure;
DROP VIEW IF EXISTS temp.outbox_state;
DROP VIEW IF EXISTS temp.outbox_messages;
DROP VIEW IF EXISTS temp.outbox_attempts;
DROP VIEW IF EXISTS temp.outbox_dead_letters;
DROP VIEW IF EXISTS temp.outbox_acts;
DROP VIEW IF EXISTS temp.outbox_attempt;
DROP VIEW IF EXISTS temp.outbox_dead;
DROP TABLE IF EXISTS temp.outbox_session;
