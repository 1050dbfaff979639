-- detail_dead: the detail of an act on a dead letter. ?1 code, ?2 attempts.
SELECT json_object('code', ?1, 'attempts', ?2)
