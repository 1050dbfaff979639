-- resume: undoes a pause of the same scope. ?1 namespace, ?2 topic, ?3 destination.
DELETE FROM outbox_pause WHERE namespace = ?1 AND topic = ?2 AND destination = ?3
