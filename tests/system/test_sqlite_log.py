"""The log of an SQLite file: an ordinary message is one row until a claim admits it to the queue.

Proves: N2 (what an enqueue costs), M1, M2 (nothing is forgotten on the way), S7 (retention keeps what is undelivered).
"""
import json

import pytest

from support.sqlite_file import Outbox, needs_sqlite

pytestmark = needs_sqlite

TENANT = "0a0b0c0d-1111-4222-8333-444444444444"


@pytest.fixture
def outbox(tmp_path):
    return Outbox.create(tmp_path / "shop.db")


def put(outbox, count=1, **columns):
    columns = {"topic": "t", "payload": "{}", **columns}
    conn = outbox.connect()
    conn.execute("BEGIN")
    for _ in range(count):
        conn.execute("INSERT INTO outbox (%s) VALUES (%s)" % (", ".join(columns), ", ".join("?" * len(columns))),
                     list(columns.values()))
    conn.execute("COMMIT")
    conn.close()


def queued(outbox):
    return outbox.value("SELECT count(*) FROM outbox_queue")


def test_an_ordinary_message_is_one_row(outbox):
    """N2: the enqueue writes nothing but the message; readers see it pending all the same."""
    put(outbox, tenant_id=TENANT, subject="s", headers='{"a": "b"}', dedupe_key=TENANT + "/d", max_attempts=3)
    put(outbox, payload=b"x", content_type="text/plain", priority=4)
    assert queued(outbox) == 0
    assert outbox.sql("SELECT status, attempts, max_attempts, next_attempt_at = created_at FROM outbox_messages ORDER BY rowid") == [
        ("pending", 0, 3, 1), ("pending", 0, 15, 1)]
    assert outbox.sql("SELECT pending, due, delayed, processing FROM outbox_status") == [(2, 2, 0, 0)]
    put(outbox, priority=7)
    listed = [json.loads(line) for line in outbox.cli("list", "--status", "pending", "--json").stdout.splitlines()]
    assert [row["id"] for row in listed] == [row[0] for row in outbox.sql("SELECT id FROM outbox_message ORDER BY n DESC")]


@pytest.mark.parametrize("columns", (
    {"key": "k"}, {"priority": 5}, {"deliver_after": "2090-01-01T00:00:00Z"}, {"expires_at": "2090-01-01T00:00:00Z"}))
def test_what_is_not_ordinary_is_queued_at_once(outbox, columns):
    """M8 M9 N3: order, priority, delay and expiry are the queue's business."""
    put(outbox, **columns)
    assert queued(outbox) == 1


def test_a_claim_admits_the_log(outbox):
    """M2: in pieces, each message once, between messages that were queued at once."""
    put(outbox, 1500)
    put(outbox, 1200, priority=5)
    put(outbox, 1500)
    outbox.actor("settle", 100, 1, 100)
    assert outbox.value("SELECT admitted FROM outbox_log") == 2000
    assert outbox.sql("SELECT status, count(*) FROM outbox_messages GROUP BY status ORDER BY status") == [
        ("delivered", 100), ("pending", 4100)]
    for _ in range(10):
        if not outbox.value("SELECT count(*) FROM outbox_messages WHERE status <> 'delivered'"):
            break
        outbox.actor("settle", 500, 1, 500, check=False)
    assert outbox.value("SELECT count(*) FROM outbox_attempt") == 4200
    assert outbox.value("SELECT count(*) FROM outbox_messages WHERE status = 'delivered'") == 4200
    assert queued(outbox) == 0
    outbox.check_sound()


def test_retention_keeps_the_log(outbox):
    """S7: a message that nobody has claimed yet is not done, however old it is."""
    put(outbox, 3)
    trigger = outbox.value("SELECT sql FROM sqlite_schema WHERE name = 'outbox_message_update'")
    conn = outbox.connect()
    conn.executescript("DROP TRIGGER outbox_message_update; UPDATE outbox_message SET created_at = 1000; " + trigger)
    conn.close()
    outbox.cli("purge")
    assert outbox.value("SELECT count(*) FROM outbox_messages WHERE status = 'pending'") == 3
