-- hooks_limit: so long may the hooks of this transaction take: they are foreign code, and whoever calls them has more to do.
select pg_catalog.set_config('statement_timeout', '5s', true)
