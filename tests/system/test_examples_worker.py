"""The worker of examples/producers, with every kind of message: it delivers what it can read, fails what nobody can, and keeps
what takes long.

Proves: M6 M10 S8 for a worker in another language.
"""
import json
import os
import signal
import subprocess
import sys

import pytest

from support.database import ROOT
from support.roles import login_name, people
from test_examples_programs import wait_for

EXAMPLE = os.path.join(ROOT, "examples", "producers", "python")

# A worker as its readers make it: the example, with a delivery of their own.
SLOW = """
import sys, time
sys.path.insert(0, sys.argv[1])
import worker

def deliver(msg, content):
    with open(sys.argv[4], "a") as log:
        log.write("%s %s\\n" % (sys.argv[3], msg["topic"]))
    while msg["topic"] == "slow":
        with open(sys.argv[4]) as log:
            if "go on" in log.read():
                return
        time.sleep(0.05)

worker.LEASE, worker.deliver = 4, deliver
worker.main(sys.argv[2], None)
"""


@pytest.fixture
def crowd(db):
    return people(db)


class Worker:
    def __init__(self, *command, env=None):
        self.process = subprocess.Popen([sys.executable, *map(str, command)], stdout=subprocess.PIPE, stderr=subprocess.PIPE,
                                        text=True, env={**os.environ, "PYTHONDONTWRITEBYTECODE": "1", **(env or {})})

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.process.kill()
        self.process.communicate()

    def end(self):
        """SIGTERM; what it printed."""
        self.process.send_signal(signal.SIGTERM)
        out, err = self.process.communicate(timeout=60)
        assert (self.process.returncode, err) == (0, "")
        return [line.split(" ", 3)[2:] for line in out.splitlines()]


def zstd(data):
    zstandard = pytest.importorskip("zstandard", reason="run tools/deps examples")
    return zstandard.ZstdCompressor(write_content_size=True).compress(data)


def put_bytes(conn, topic, data, content_type=None, encoding=None):
    conn.execute("SELECT outbox.enqueue_bytes(%s, %s, %s, encoding => %s)", (topic, data, content_type, encoding))


def attempts(db, outcome):
    return db.sql("SELECT topic, code, error FROM outbox.attempts WHERE outcome = '%s' ORDER BY topic" % outcome)


def test_it_reads_every_kind_of_message(crowd):
    """M6 M10: JSON, bytes, both of them compressed; and what cannot be read is dead, with the reason."""
    with crowd.connect("producer", autocommit=True) as conn:
        conn.execute("SELECT outbox.enqueue('1.json', '{\"n\": 1}')")
        put_bytes(conn, "2.bytes", b"\x00\xff", "image/png")
        put_bytes(conn, "3.empty", b"", "text/plain")
        put_bytes(conn, "4.packed.json", zstd(json.dumps({"n": 4}).encode()), encoding="zstd")
        put_bytes(conn, "5.packed.bytes", zstd(b"\x00\xff" * 9), "image/png", "zstd")
        # Its header is whole, or enqueue would refuse it.
        put_bytes(conn, "6.damaged", zstd(os.urandom(500))[:-6], "image/png", "zstd")
        put_bytes(conn, "7.no-json", zstd(b"{oops"), encoding="zstd")
    with Worker(os.path.join(EXAMPLE, "worker.py"), crowd.db.url(login_name("relay"))) as worker:
        wait_for(crowd.db, "SELECT bool_and(status IN ('delivered', 'dead')) FROM outbox.messages")
        out = worker.end()
    assert sorted(out) == [["1.json", "{'n': 1}"], ["2.bytes", r"b'\x00\xff'"], ["3.empty", "b''"],
                           ["4.packed.json", "{'n': 4}"], ["5.packed.bytes", repr(b"\x00\xff" * 9)]]
    assert [(topic, code) for topic, code, _ in attempts(crowd.db, "failed")] == [("6.damaged", "encoding"),
                                                                                  ("7.no-json", "not_json")]
    errors = [error for _, _, error in attempts(crowd.db, "failed")]
    assert "cannot be decompressed" in errors[0] and "is not JSON" in errors[1]
    assert crowd.db.sql("SELECT DISTINCT reason FROM outbox.dead_letters") == [("terminal",)]


def test_without_zstd_it_leaves_the_message_to_others(crowd, tmp_path):
    """S8: it says what to install and spends no attempt; what it can read it delivers."""
    (tmp_path / "zstandard.py").write_text("raise ImportError('not installed')\n")
    with crowd.connect("producer", autocommit=True) as conn:
        put_bytes(conn, "packed", zstd(b'{"n": 1}'), encoding="zstd")
        conn.execute("SELECT outbox.enqueue('plain', '1')")
    with Worker(os.path.join(EXAMPLE, "worker.py"), crowd.db.url(login_name("relay")),
                env={"PYTHONPATH": str(tmp_path)}) as worker:
        wait_for(crowd.db, "SELECT bool_or(status = 'delivered') AND bool_or(last_code = 'no_zstd') FROM outbox.messages")
        assert worker.end() == [["plain", "1"]]
    assert crowd.db.sql("SELECT status, spent, last_error FROM outbox.messages WHERE topic = 'packed'") == [
        ("pending", 0, "this worker cannot decompress: install python3-zstandard")]


def test_a_slow_delivery_is_not_repeated(crowd, tmp_path):
    """M10 S8: its lease is extended. The second worker is awake when the first lease would have ended, and takes other work."""
    db, log = crowd.db, tmp_path / "log"
    script = tmp_path / "slow.py"
    script.write_text(SLOW)
    log.touch()
    db.sql("SELECT outbox.enqueue('slow', '{}')")
    with Worker(script, EXAMPLE, db.url(login_name("relay")), "first", log) as first:
        wait_for(db, "SELECT status = 'processing' FROM outbox.messages WHERE topic = 'slow'")
        with Worker(script, EXAMPLE, db.url(login_name("relay")), "second", log) as second:
            wait_for(db, "SELECT claimed_at < now() - interval '4 s' FROM outbox.attempts WHERE topic = 'slow'")
            db.sql("SELECT outbox.enqueue('quick', '{}')")
            wait_for(db, "SELECT status = 'delivered' FROM outbox.messages WHERE topic = 'quick'")
            with log.open("a") as file:
                file.write("go on\n")
            wait_for(db, "SELECT status = 'delivered' FROM outbox.messages WHERE topic = 'slow'")
            second.end()
        first.end()
    assert log.read_text().splitlines() == ["first slow", "second quick", "go on"]
    assert db.sql("SELECT outcome FROM outbox.attempts WHERE topic = 'slow'") == [("delivered",)]
