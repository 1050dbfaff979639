-- purge: one step of retention, in a transaction of its own so that no lock is held for long. The caller goes on until
-- no row says more. Columns: removed, more.
select removed, more from @schema@.purge()
