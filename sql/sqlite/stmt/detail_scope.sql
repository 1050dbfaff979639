-- detail_scope: the detail of a pause. ?1 namespace, ?2 topic, ?3 destination.
SELECT json_object('namespace', ?1, 'topic', ?2, 'destination', ?3)
