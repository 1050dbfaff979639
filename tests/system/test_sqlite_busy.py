"""Producers beside a relay that never rests.

Proves: N4 (the outbox does not keep producers out): SQLite has one writer, so the promise is that a producer with a busy
timeout of one second never fails, and that busy never means lost.
"""
import subprocess
import sys

import pytest

from support.sqlite_file import Outbox, needs_sqlite

pytestmark = needs_sqlite

# Writes for so many seconds with a busy timeout of one second; prints how often, and how often it failed. It rests for
# longer than it writes: producers that keep the file busy all by themselves would fail each other without any relay.
PRODUCER = """
import sqlite3, sys, time
path, seconds = sys.argv[1], float(sys.argv[2])
conn = sqlite3.connect(path, timeout=1.0, isolation_level=None)
done = failed = wrote = 0
longest, end = 0.0, time.monotonic() + seconds
while time.monotonic() < end:
    start = time.monotonic()
    try:
        conn.execute("BEGIN IMMEDIATE")
        began = time.monotonic()
        conn.execute("INSERT INTO orders DEFAULT VALUES")
        conn.execute("INSERT INTO outbox (topic, payload) VALUES ('live', '{}')")
        conn.execute("COMMIT")
        wrote = time.monotonic() - began
        done += 1
    except sqlite3.OperationalError as error:
        failed += 1
        if conn.in_transaction:
            conn.execute("ROLLBACK")
    longest = max(longest, time.monotonic() - start)
    time.sleep(0.01 + 5 * wrote)
print(done, failed, "%.3f" % longest)
"""


@pytest.fixture
def outbox(tmp_path):
    box = Outbox.create(tmp_path / "shop.db")
    conn = box.connect()
    conn.execute("PRAGMA journal_mode = WAL")
    conn.execute("CREATE TABLE orders (id INTEGER PRIMARY KEY)")
    conn.execute("BEGIN")
    for _ in range(5000):
        conn.execute("INSERT INTO outbox (topic, payload, max_attempts) VALUES ('backlog', '{}', 1000)")
    conn.execute("COMMIT")
    conn.close()
    return box


@pytest.mark.parametrize("producers", (1, 3))
def test_producers_never_fail(outbox, producers, capsys):
    """N4: a relay that claims and settles 500 at a time without a pause, and producers with a timeout of a second."""
    grinder = outbox.start("grind", 6)
    processes = [subprocess.Popen([sys.executable, "-c", PRODUCER, outbox.path, "5"], stdout=subprocess.PIPE, text=True)
                 for _ in range(producers)]
    results = [process.communicate(timeout=60)[0].split() for process in processes]
    out, err = grinder.communicate(timeout=60)
    assert grinder.returncode == 0, err
    assert [int(failed) for _, failed, _ in results] == [0] * producers, results
    total = sum(int(done) for done, _, _ in results)
    assert outbox.value("SELECT count(*) FROM outbox_messages WHERE topic = 'live'") == total > 20
    assert outbox.value("SELECT count(*) FROM orders") == total
    with capsys.disabled():
        print(" [%s; longest wait %s s; relay: %s]" % (
            "%d committed" % total, max(longest for _, _, longest in results), out.strip()), end="")
    outbox.check_sound()


def test_busy_is_told_and_loses_nothing(outbox):
    """M10: when another writer keeps the file for longer than the handle waits, the call says so and nothing changed."""
    conn = outbox.connect()
    conn.execute("BEGIN IMMEDIATE")
    before = outbox.dump()
    done = Outbox(outbox.path + "?busy_timeout=100").actor("claim", 10, 1, check=False)
    assert done.returncode == 75 and "BUSY" in done.stderr
    conn.execute("COMMIT")
    assert outbox.dump() == before
    assert len(outbox.actor("claim", 10, 1).stdout.splitlines()) == 10
    conn.close()


def test_an_empty_claim_needs_no_lock(outbox):
    """N4 S8: a relay with nothing to do never waits for a producer, and a producer never for it."""
    outbox.actor("settle", 5000, 1, 5000)
    conn = outbox.connect()
    conn.execute("BEGIN IMMEDIATE")
    conn.execute("INSERT INTO outbox (topic, payload) VALUES ('t', '{}')")
    assert Outbox(outbox.path + "?busy_timeout=100").actor("claim", 10, 1).stdout == ""
    conn.execute("COMMIT")
    assert len(outbox.actor("claim", 10, 1).stdout.splitlines()) == 1
    conn.close()


def test_blocked_messages_cost_nothing(outbox):
    """N2 M20: behind a failing head thousands wait without a claim ever meeting them: only heads are in the index."""
    outbox.actor("settle", 5000, 1, 5000)
    conn = outbox.connect()
    conn.execute("BEGIN")
    for _ in range(5000):
        conn.execute("INSERT INTO outbox (topic, payload, key, max_attempts) VALUES ('t', '{}', 'k', 1000)")
    conn.execute("INSERT INTO outbox (topic, payload, priority) VALUES ('t', '{}', 3)")
    conn.execute("COMMIT")

    def states():
        return dict(conn.execute("SELECT state, count(*) FROM outbox_queue GROUP BY state"))
    assert states() == {0: 2, 2: 4999}
    for _ in range(3):
        outbox.actor("settle", 1, 2, 0)
    assert states() == {0: 2, 2: 4999}
    conn.execute("UPDATE outbox_queue SET due = due + 3600000000 WHERE state = 0 AND sid IS NOT NULL")
    outbox.actor("settle", 100, 1, 100)
    assert outbox.actor("claim", 100, 50).stdout == ""
    assert states() == {0: 1, 2: 4999}
    conn.execute("UPDATE outbox_queue SET due = due - 3600000000 WHERE state = 0")
    outbox.actor("settle", 100, 1, 100)
    assert states() == {0: 1, 2: 4998}
    conn.close()


def test_bad_settings_of_a_handle(outbox):
    """N1: what stands behind "?" is checked."""
    for bad in ("?nonsense=1", "?synchronous=perhaps", "?busy_timeout=-1", "?busy_timeout=soon"):
        done = Outbox(outbox.path + bad).actor("claim", 1, 1, check=False)
        assert done.returncode == 2 and "setting" in done.stderr, (bad, done)
    for good in ("?synchronous=full", "?synchronous=normal&busy_timeout=50", "?"):
        assert Outbox(outbox.path + good).actor("claim", 1, 1).returncode == 0
