-- settle_window: says how messages of windows ended, many at once. A window closes with its last message.
-- $1 shards, $2 ids, $3 nonces of the windows, $4 how many of their messages page did not return; $5 of which window each message is (from 1),
-- $6 ids, $7 outcomes (null: under way, it goes on as a leased row of the queue), $8 codes, $9 errors, $10 references, $11 outputs,
-- $12 delays and $13 latencies in microseconds as in settle.sql, $14 what they may spend in all, $15 tenants; arrays of one length, $8 to $15
-- may be null as a whole; $16 the beginning of the name they were taken under, or null, $17 lease of those under way,
-- $18 an earlier call with some of these may have been carried out.
-- Columns: ord (from 1), result (ok, lost), dead; no row for what is simply ok.
-- Locks: the rows of the windows, and those of settle.sql.
select ord, result, dead
from @schema@.settle_window(shards => $1::pg_catalog.int4[], windows => $2::pg_catalog.int8[],
                            nonces => $3::pg_catalog.int8[], missing => $4::pg_catalog.int4[],
                            item_windows => $5::pg_catalog.int4[], ids => $6::pg_catalog.uuid[],
                            outcomes => $7::pg_catalog.int4[], codes => $8::pg_catalog.text[],
                            errors => $9::pg_catalog.text[], refs => $10::pg_catalog.text[],
                            outputs => @schema@.as_json($11::pg_catalog.text[]), delays => $12::pg_catalog.int8[],
                            latencies => $13::pg_catalog.int8[], budgets => $14::pg_catalog.int4[],
                            tenants => $15::pg_catalog.uuid[], worker => $16::pg_catalog.text,
                            lease => $17::pg_catalog.interval, again => $18::pg_catalog.bool)
