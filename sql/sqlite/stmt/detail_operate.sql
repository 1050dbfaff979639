-- detail_operate: the detail of an operator's act on a message. ?1 status before, ?2 code, ?3 attempts, ?4 new message, ?5 topic, ?6
-- namespace, ?7 run: what is null is left out.
SELECT json_patch('{}', json_object('was', ?1, 'code', ?2, 'attempts', ?3, 'as', ?4, 'topic', ?5, 'namespace', ?6, 'run', ?7))
