"""`outbox tail`: what happens to messages, as it happens.

Proves: V13 (operators see), M10 (nothing is lost): each transition once, whenever its transaction commits.
"""
import json
import os
import select
import signal
import subprocess
import time

import pytest

from support.box import STORES, fresh_box
from support.database import BUILD, run_cli

PATIENCE = 60


@pytest.fixture(params=STORES)
def box(request, tmp_path):
    return fresh_box(request, tmp_path)


class Tail:
    """A running tail; its lines as they come."""

    def __init__(self, box, *args):
        self.process = subprocess.Popen([os.path.join(BUILD, "src", "cli", "outbox"), "tail", "--store", box.url, "--json", *args],
                                        stdout=subprocess.PIPE, stderr=subprocess.PIPE)
        self.rest = b""

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.process.kill()
        self.process.communicate()

    def take(self, count):
        lines, until = [], time.monotonic() + PATIENCE
        while len(lines) < count:
            head, newline, tail = self.rest.partition(b"\n")
            if newline:
                self.rest = tail
                lines.append(json.loads(head))
                continue
            ready, _, _ = select.select([self.process.stdout], [], [], max(0, until - time.monotonic()))
            assert ready, "only %s" % lines
            more = os.read(self.process.stdout.fileno(), 65536)
            assert more, self.process.stderr.read().decode()
            self.rest += more
        return lines


def events(rows):
    return [(row["topic"], row["event"], row["status"]) for row in rows]


def test_transitions_are_told_as_they_happen(box):
    """V13: enqueued, attempts, dead, acts; the filter; --limit ends it."""
    box.send("orders", "0")
    box.settle(1)
    with Tail(box, "--since", "-1h") as tail, Tail(box, "topic:orders", "status:dead", "--since", "-1h", "--limit", "2") as deaths:
        assert events(tail.take(2)) == [("orders", "enqueued", "pending"), ("orders", "delivered", "delivered")]
        dead = box.kill("orders", "1", code="http_400", error="no \x1b[31msuch order")
        rows = tail.take(3)
        assert events(rows) == [("orders", "enqueued", "pending"), ("orders", "failed", "dead"), ("orders", "dead", "dead")]
        assert {row["id"] for row in rows} == {dead}
        assert (rows[1]["attempt"], rows[1]["code"], rows[1]["error"]) == (1, "http_400", "no \x1b[31msuch order")
        box.cli("retry", dead, "--actor", "ann", "--reason", "mended")
        box.cli("pause", "--topic", "orders", "--actor", "bob")
        rows = tail.take(2)
        assert [(row["event"], row["actor"], row["reason"]) for row in rows] == [("retry", "ann", "mended"), ("pause", "bob", None)]
        assert rows[0]["id"] == dead and rows[1]["id"] is None
        assert events(deaths.take(2)) == [("orders", "failed", "dead"), ("orders", "dead", "dead")]
        assert deaths.process.wait(PATIENCE) == 0
        tail.process.send_signal(signal.SIGINT)
        assert tail.process.wait(PATIENCE) == -signal.SIGINT


def test_the_past(box):
    """V13: --since and --once; refused without, for topics that nobody knows, and for a filter that is none."""
    box.kill("orders", "1", error="busy")
    box.send("mail", "1")
    done = box.cli("tail", "--since", "-1h", "--once", "topic:orders")
    assert [line.split()[1] for line in done.stdout.splitlines()] == ["enqueued", "failed", "dead"]
    assert "default/orders" in done.stdout and "\x1b" not in done.stdout
    assert len(box.cli("tail", "--since", "-1h", "--once", "--limit", "2").stdout.splitlines()) == 2
    assert box.cli("tail", "--since", "+1h", "--once").stdout == ""
    assert "--since" in box.cli("tail", "--once", check=False).stderr
    assert "did you mean \"orders\"" in box.cli("tail", "topic:oders", check=False).stderr
    assert box.cli("tail", "topic:oders", "--force", "--since", "-1h", "--once").stdout == ""
    assert box.cli("tail", "topik:x", check=False).returncode == 2


def test_a_late_commit_is_told(db):
    """M10: a transaction that was open while others were told is told when it commits, whatever its attempts, dead letters and acts."""
    from support.box import Box
    box = Box(db.url())
    box.send("orders", "1", "--max-attempts", "1")
    with db.connect() as slow:
        slow.execute("SELECT outbox.enqueue('slow', '1')")
        slow.execute("SELECT outbox.nack(ARRAY[id], ARRAY[token], ARRAY['no']) FROM outbox.claim('w', 1)")
        slow.execute("SELECT outbox.pause('default', 'slow')")
        with Tail(box) as tail:
            for number in range(30):  # until the tail has begun
                box.send("quick", str(number))
                if select.select([tail.process.stdout], [], [], 0.3)[0]:
                    break
            seen = tail.take(1)
            slow.commit()
            box.send("last", "1")
            while seen[-1]["topic"] != "last":
                seen += tail.take(1)
            told = [row for row in seen if row["topic"] != "quick"]
            wanted = {("slow", "enqueued"), ("orders", "failed"), ("orders", "dead"), (None, "pause"), ("last", "enqueued")}
            while len(told) < len(wanted):
                told += tail.take(1)
            assert {(row["topic"], row["event"]) for row in told} == wanted and len(told) == len(wanted)


def test_a_lost_connection_is_made_again(db):
    """M10: what happened meanwhile is told, once."""
    from support.box import Box
    box = Box(db.url())
    box.send("orders", "0")
    with Tail(box, "--since", "-1h") as tail:
        tail.take(1)
        db.sql("SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE pid <> pg_backend_pid() AND datname = current_database()")
        box.send("orders", "1")
        box.send("orders", "2")
        assert events(tail.take(2)) == [("orders", "enqueued", "pending")] * 2


def test_a_tenant_sees_its_own(db):
    """S5: with app.current_tenant_id, what happened to that tenant's messages only."""
    from support.roles import login_name, people
    people(db)
    mine, other = "0a0a0a0a-1111-4222-8333-444444444444", "0b0b0b0b-1111-4222-8333-444444444444"
    for tenant in (mine, other, None):
        run_cli("send", "--store", db.url(), "t", "1", *(["--tenant", tenant] if tenant else []))
    with db.connect() as conn:
        conn.execute("SELECT outbox.ack(array_agg(id), array_agg(token)) FROM outbox.claim('w', 10)")
    with db.connect(user=login_name("tenant"), autocommit=True) as conn:
        assert conn.execute("SELECT count(*) FROM outbox.tail_message").fetchone() == (0,)
        conn.execute("SELECT set_config('app.current_tenant_id', %s, false)", (mine,))
        for view in ("message", "facts", "attempt"):
            assert conn.execute("SELECT DISTINCT tenant_id::text FROM outbox.tail_%s" % view).fetchall() == [(mine,)]
