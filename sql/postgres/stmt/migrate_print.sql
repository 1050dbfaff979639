-- Notes the migrations above, so that `outbox migrate` knows them.
insert into @schema@.migration (version, name, checksum) values
