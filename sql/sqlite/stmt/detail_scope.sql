-- detail_scope: the detail of a pause. ?1 namespace, ?2 topic, ?3 sink.
SELECT json_object('namespace', ?1, 'topic', ?2, 'sink', ?3)
