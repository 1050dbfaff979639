-- detail_setting: the detail of a changed setting. ?1 namespace, ?2 name, ?3 value.
SELECT json_object('namespace', ?1, 'name', ?2, 'value', ?3)
