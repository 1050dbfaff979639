-- pause: stops the claims of a scope; changes no row when it is paused already.
-- ?1 namespace, ?2 topic, ?3 sink, each '' for all or none; ?4 now, ?5 actor, ?6 reason.
INSERT INTO outbox_pause (namespace, topic, sink, at, actor, reason)
SELECT ?1, ?2, ?3, ?4, ?5, ?6
 WHERE NOT EXISTS (SELECT 1 FROM outbox_pause WHERE namespace = ?1 AND topic = ?2 AND sink = ?3)
