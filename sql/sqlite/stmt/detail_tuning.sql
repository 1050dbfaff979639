-- detail_tuning: the detail of a setting changed at run time. ?1 name, ?2 value.
SELECT json_object('name', ?1, 'value', ?2)
