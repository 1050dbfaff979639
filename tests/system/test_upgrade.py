"""An outbox of the time before the log is upgraded, while it is used.

Proves: N7 N2 S2 (nothing lost, order per key), N14 S5 (the same schema and rights as a fresh one).

past/row_only.sql.gz is a dump of such an outbox, without a message.
"""
import gzip
import os
import sys
import threading

import pytest

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path.insert(0, os.path.join(os.path.dirname(HERE), "prove"))

import storm  # noqa: E402
from support.database import run_cli  # noqa: E402

# What there is, by name: upgraded tables have their new columns at the end.
CATALOG = """
    select 'column', c.relname || '.' || a.attname, concat_ws(' ', format_type(a.atttypid, a.atttypmod), a.attnotnull, a.attcompression::text, a.attstorage::text, a.attcollation::regcollation,
           pg_get_expr(d.adbin, d.adrelid))
      from pg_attribute a join pg_class c on c.oid = a.attrelid left join pg_attrdef d on d.adrelid = c.oid and d.adnum = a.attnum
     where c.relnamespace = 'outbox'::regnamespace and c.relkind in ('r', 'p', 'v', 'c') and a.attnum > 0 and not a.attisdropped
    union all select 'relation', c.relname, concat_ws(' ', c.relkind::text, c.reloptions, c.relrowsecurity, c.relforcerowsecurity)
      from pg_class c where c.relnamespace = 'outbox'::regnamespace and c.relkind <> 'i'
    union all select 'constraint', conrelid::regclass || '.' || conname, pg_get_constraintdef(oid) from pg_constraint
     where connamespace = 'outbox'::regnamespace
    union all select 'index', indexrelid::regclass::text, pg_get_indexdef(indexrelid) from pg_index join pg_class c on c.oid = indrelid
     where c.relnamespace = 'outbox'::regnamespace
    union all select 'trigger', tgrelid::regclass || '.' || tgname, pg_get_triggerdef(t.oid) from pg_trigger t join pg_class c on c.oid = tgrelid
     where c.relnamespace = 'outbox'::regnamespace
    union all select 'policy', polrelid::regclass || '.' || polname, concat_ws(' ', polcmd, pg_get_expr(polqual, polrelid), pg_get_expr(polwithcheck, polrelid))
      from pg_policy p join pg_class c on c.oid = polrelid where c.relnamespace = 'outbox'::regnamespace
    union all select 'function', p.oid::regprocedure::text, pg_get_functiondef(p.oid) from pg_proc p where p.pronamespace = 'outbox'::regnamespace
    union all select 'migration', name, checksum from outbox.migration"""


@pytest.fixture
def old(empty_db, pg_template):
    """The roles are there: the template made them."""
    with gzip.open(os.path.join(HERE, "past", "row_only.sql.gz"), "rt") as dump:
        empty_db.server.psql(dump.read(), empty_db.name)
    return empty_db


def catalog(db):
    """Partitions have names of the day: they are left out."""
    return {(kind, name): text for kind, name, text in db.sql(CATALOG) if "_20" not in name}


@pytest.fixture
def dba(old):
    """Not a superuser: what docs/sql.md asks for. Roles are there for all databases of the server."""
    grant = "GRANT outbox_owner, outbox_api, outbox_hooks, outbox_nobody TO upgrader"
    old.sql("CREATE ROLE upgrader LOGIN")
    old.sql('GRANT CREATE ON DATABASE "%s" TO upgrader' % old.name)
    old.sql(grant)
    yield "upgrader"
    old.sql("DROP OWNED BY upgrader; DROP ROLE upgrader")


def test_n14_s5_an_upgrade_by_somebody_who_is_no_superuser(old, dba, db):
    """S5 N14: the same as after that of a superuser, and what was there goes on."""
    old.sql("select count(outbox.enqueue('t', to_jsonb(n), key => case when n % 2 = 0 then 'k' || n % 5 end)) from generate_series(1, 40) n")
    run_cli("migrate", "--store", old.url(user=dba))
    assert catalog(old) == catalog(db)
    assert old.sql("select * from outbox.wrong_rights()") == []
    assert len(old.sql("select id from outbox.claim('w', 100, run => 100)")) == 40


def test_n14_s5_an_upgraded_outbox_is_like_a_fresh_one(old, db):
    """N7: and has all that it had: pending, leased, dead and parked messages, keys, what operators set."""
    old.sql("select count(outbox.enqueue('t', to_jsonb(n), key => case when n % 2 = 0 then 'k' || n % 5 end, dedupe_key => 'd' || n)) "
            "from generate_series(1, 40) n")
    leased = old.sql("select id, token from outbox.claim('w', 12, run => 3)")
    old.sql("select outbox.settle(%s::uuid[], %s::bigint[], %s::int[])", [row[0] for row in leased[:4]], [1] * 4, [1, 2, 3, 8])
    old.sql("select outbox.pause('default', 'other')")
    tables = ("queue", "dead", "dedupe", "stream", "attempt", "message", "pause")
    rows = {table: old.sql("select to_jsonb(t) from outbox.%s t order by to_jsonb(t)::text" % table) for table in tables}
    old.cli("migrate")
    assert catalog(old) == catalog(db)
    assert old.sql("select * from outbox.wrong_rights()") == []
    for table in tables:
        was, now = (sorted(str({k: v for k, v in row[0].items() if k in rows[table][0][0]}) for row in found)
                    for found in (rows[table], old.sql("select to_jsonb(t) from outbox.%s t" % table)))
        assert was == now, table
    assert old.sql("select lane from outbox.namespace where name = '*'") == [("log",)]
    assert old.sql("select action from outbox.act order by id") == [("pause",), ("configure",)]
    assert old.sql("select result from outbox.settle(array[%s::uuid], array[1::bigint], array[3])", leased[4][0]) == [("ok",)]
    assert old.sql("select created from outbox.enqueue('t', '1', dedupe_key => 'd1')") == [(False,)]
    assert "up to date" in old.cli("migrate").stderr


def test_n7_n2_s2_an_upgrade_under_load(old, tmp_path):
    """Producers and those who claim know nothing of it; takers of windows come with the new version."""
    one = storm.Storm(old.server, old, str(tmp_path), producers=3, workers=2, takers=2, seed=5)
    answers = []
    upgrade = threading.Timer(2, lambda: answers.append(old.cli("migrate", timeout=120)))
    upgrade.start()
    one.run(kills=10, crashes=0, seconds=8)
    upgrade.join()
    with old.connect(autocommit=True) as conn:
        for _ in range(20):  # where the upgrade ended late
            storm.produce(conn, "after", None)
    one.drain()
    found = one.check()
    logged, = old.sql("select count(*) from outbox.message where shard is not null")[0]
    assert answers and found["committed"] > 50 and logged > 10, (found, logged)
    assert all(found[name] == 0 for name in storm.VERDICT), found
