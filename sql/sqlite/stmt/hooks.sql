-- hooks: how many triggers the application has on outbox_event.
SELECT count(*) FROM sqlite_schema
 WHERE type = 'trigger' AND lower(tbl_name) = 'outbox_event' AND name <> 'outbox_event_pass'
