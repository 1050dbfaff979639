"""The private PostgreSQL server of the tests.

Proves: tests use real servers and leave nothing behind (style, tests).
"""
import os
import signal
import subprocess
import sys
import time

import psycopg
import pytest

TESTS = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))


def test_both_addresses_reach_it(pg_server):
    for address in (pg_server.conninfo(), pg_server.url()):
        with psycopg.connect(address) as conn:
            assert conn.execute("SELECT current_user, 1").fetchone() == ("postgres", 1)


def test_databases_are_apart(pg_server, empty_db):
    empty_db.sql("CREATE TABLE only_here (a int)")
    assert empty_db.sql("SELECT to_regclass('only_here') IS NOT NULL") == [(True,)]
    assert pg_server.psql("SELECT to_regclass('only_here') IS NULL") == "t"


@pytest.mark.parametrize("mode", ["fast", "immediate", "kill"])
def test_what_is_committed_survives_every_stop(own_pg_server, mode):
    own_pg_server.psql("CREATE TABLE t AS SELECT 1 AS a")
    busy = psycopg.connect(own_pg_server.url())
    busy.execute("INSERT INTO t VALUES (2)")
    own_pg_server.restart(mode)
    busy.close()
    assert own_pg_server.psql("SELECT a FROM t") == "1"


def test_a_killed_backend_restarts_the_server(own_pg_server):
    own_pg_server.psql("CREATE TABLE t AS SELECT 1 AS a")
    with psycopg.connect(own_pg_server.url()) as victim, psycopg.connect(own_pg_server.url()) as other:
        own_pg_server.kill_backend(victim.info.backend_pid)
        with pytest.raises(psycopg.OperationalError):
            for _ in range(1000):
                other.execute("SELECT 1")
                time.sleep(0.01)
        own_pg_server.wait_recovered()
    assert own_pg_server.psql("SELECT a FROM t") == "1"


def test_it_dies_with_the_process_that_started_it():
    program = ("import sys; sys.path.insert(0, %r)\n"
               "from support.pgserver import PgServer\n"
               "server = PgServer().start()\n"
               "print(server.process.pid, server.folder, flush=True)\n"
               "sys.stdin.read()\n" % TESTS)
    parent = subprocess.Popen([sys.executable, "-c", program], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
    pid, folder = parent.stdout.readline().split()
    parent.send_signal(signal.SIGKILL)
    parent.wait()
    pidfile = os.path.join(folder, "data", "postmaster.pid")
    deadline = time.monotonic() + 30
    while os.path.exists(pidfile) and time.monotonic() < deadline:  # the last thing that a server removes
        time.sleep(0.01)
    assert not os.path.exists(pidfile), "server %s lives on" % pid
    subprocess.run(["rm", "-rf", folder], check=True)


def test_a_server_that_cannot_start_says_why(own_pg_server):
    own_pg_server.stop()
    own_pg_server.settings["shared_buffers"] = "nonsense"
    with pytest.raises(RuntimeError, match="nonsense"):
        own_pg_server.start()
