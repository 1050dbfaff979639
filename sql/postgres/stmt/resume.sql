-- resume: undoes a pause of the same scope. On record. Parameters as in pause.
select @schema@.resume(namespace => $1::text, topic => $2::text, destination => $3::text, actor => $4::text,
                       reason => $5::text)
