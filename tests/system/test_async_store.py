"""The line of a relay (core/async_store.h) on a server that goes away: restarted, crashed, turned read-only, silent, behind a
pooler. tests/contract/async_store.c has what both stores share.

Proves: N4, M10, S9.
"""
import os
import queue
import shutil
import socket
import subprocess
import threading

import pytest

from support import database
from support.doorbell import Pooler, eventually

PROGRAM = os.path.join(database.BUILD, "tests", "system", "async_store_driver")
ENQUEUE = "select count(*) from generate_series(1, %s) i, outbox.enqueue('t', to_jsonb(i))"
PATIENCE = 60


class Driver:
    """with Driver(url) as line: line.expect("ok")"""

    def __init__(self, url, timeout_ms=10000):
        self.process = subprocess.Popen([PROGRAM, url, str(timeout_ms)], stdin=subprocess.PIPE,
                                        stdout=subprocess.PIPE, text=True)
        self.lines = queue.Queue()
        self.thread = threading.Thread(target=self._read, daemon=True)
        self.thread.start()

    def _read(self):
        for line in self.process.stdout:
            self.lines.put(line.rstrip("\n"))

    def expect(self, *starts):
        """The next line that begins with one of these; what comes before it goes unread."""
        seen = []
        while True:
            try:
                line = self.lines.get(timeout=PATIENCE)
            except queue.Empty:
                raise AssertionError("waited for %s, heard %s" % (starts, seen)) from None
            seen.append(line)
            if line.startswith(starts):
                return line

    def finish(self):
        """What it did: every ask was answered, or it would not end."""
        self.process.stdin.close()
        words = self.expect("claims").split()
        assert self.process.wait(PATIENCE) == 0
        return {words[i]: int(words[i + 1]) for i in range(0, len(words), 2)}

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.process.kill()
        self.process.wait()
        self.thread.join()
        self.process.stdout.close()
        if not self.process.stdin.closed:
            self.process.stdin.close()


@pytest.fixture
def own_db(own_pg_server):
    return database.create_template(own_pg_server)


def waiting(db):
    return db.sql("select count(*) from outbox.messages where status in ('pending', 'processing')")[0][0]


@pytest.mark.parametrize("mode", ["fast", "immediate"])
def test_a_restart_in_the_middle(own_db, mode):
    """N4, M10: every ask is answered once, and all is well again afterwards; nothing is lost."""
    own_db.sql(ENQUEUE, 2000)
    with Driver(own_db.conninfo()) as line:
        line.expect("ok")
        own_db.server.stop(mode)
        line.expect("UNREACHABLE")
        own_db.server.start()
        line.expect("ok")
        eventually(lambda: waiting(own_db) == 0, "everything is delivered")
        done = line.finish()
    assert done["claims"] > 0 and done["settles"] > 0 and done["extends"] > 0
    delivered = own_db.sql("select count(distinct message_id) from outbox.attempts where outcome = 'delivered'")[0][0]
    assert delivered == 2000


def test_a_server_that_became_read_only(db):
    """N4: an old primary that comes back takes no writes; the line leaves it and connects again."""
    db.sql(ENQUEUE, 10)
    with Driver(db.conninfo()) as line:
        line.expect("ok")
        db.sql('alter database "%s" set default_transaction_read_only = on' % db.name)
        db.sql("select pg_terminate_backend(pid) from pg_stat_activity where application_name = 'line' "
               "and datname = current_database()")
        line.expect("READONLY")
        with db.connect(autocommit=True) as conn:
            conn.execute("set default_transaction_read_only = off")
            conn.execute('alter database "%s" reset default_transaction_read_only' % db.name)
        line.expect("ok")
        db.sql(ENQUEUE, 10)
        eventually(lambda: waiting(db) == 0, "everything is delivered")
        line.finish()


def test_a_silent_host_is_passed_over(db):
    """N4: the first host takes connections and says nothing, as one that is hung does."""
    with socket.socket() as silent:
        silent.bind(("127.0.0.1", 0))
        silent.listen(64)
        db.sql(ENQUEUE, 10)
        conninfo = "host=127.0.0.1,127.0.0.1 port=%d,%d user=postgres dbname=%s target_session_attrs=read-write" % (
            silent.getsockname()[1], db.server.port, db.name)
        with Driver(conninfo, timeout_ms=2000) as line:
            assert "in time" in line.expect("UNREACHABLE")
            line.expect("ok")
            eventually(lambda: waiting(db) == 0, "everything is delivered")
            line.finish()


@pytest.mark.skipif(not shutil.which("pgbouncer", path=os.environ["PATH"] + ":/usr/sbin"), reason="needs pgbouncer")
@pytest.mark.parametrize("mode", ["transaction", "session"])
def test_behind_a_pooler(db, mode):
    """N4, S9: statements are asked for on whatever session there is, and nobody can ring."""
    db.sql(ENQUEUE, 500)
    with Pooler(db, mode) as pooler, Driver(pooler.conninfo()) as one, Driver(pooler.conninfo()) as two:
        one.expect("ok")
        two.expect("ok")
        eventually(lambda: waiting(db) == 0, "everything is delivered")
        first, second = one.finish(), two.finish()
        assert first["delivered"] + second["delivered"] == 500
        assert first["polling"] == 1
        for line in (one, two):
            while not line.lines.empty():
                assert line.lines.get() == "ok"
