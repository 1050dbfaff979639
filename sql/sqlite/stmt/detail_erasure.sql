-- detail_erasure: the detail of an erasure. ?1 tenant, ?2 messages, ?3 attempts.
SELECT json_object('tenant', ?1, 'messages', ?2, 'attempts', ?3)
