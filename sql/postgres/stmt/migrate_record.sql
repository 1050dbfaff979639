-- migrate_record: notes a migration in the transaction that made it. $1 version, $2 name, $3 checksum of its file.
insert into @schema@.migration (version, name, checksum) values ($1::pg_catalog.int4, $2::pg_catalog.text,
$3::pg_catalog.text)
