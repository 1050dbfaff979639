-- resume: undoes the pause of the same scope, and those of single names that a pattern matches.
-- ?1 namespace, ?2 topic, ?3 sink, each '' for all or none.
DELETE FROM outbox_pause
 WHERE sink = ?3
   AND (namespace = ?1 AND topic = ?2
        OR namespace <> '' AND (topic = '') = (?2 = '') AND namespace || topic NOT GLOB '*[*?]*'
           AND namespace GLOB replace(?1, '[', '[[]') AND topic GLOB replace(?2, '[', '[[]'))
