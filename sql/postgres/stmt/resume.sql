-- resume: undoes a pause of the same scope. On record. Parameters as in pause.
select @schema@.resume(namespace => $1::pg_catalog.text, topic => $2::pg_catalog.text,
                       sink => $3::pg_catalog.text, actor => $4::pg_catalog.text,
                       reason => $5::pg_catalog.text)
