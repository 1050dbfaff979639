-- tell_news: operators are told. ?1 now, ?2 up to when, ?3 id of the message.
UPDATE outbox_notice SET at = ?1, upto = ?2, message_id = ?3
