"""kill -9 of SQLite producers and workers at random points, and a ledger that must balance afterwards.

Proves: N7 (a ledger of every message through kills), M1 (order and message both or neither), V10 M10 S14 (what a killed
worker held comes back), N2 S2 (order and gapless sequence per key), S6 (attempts).

OUTBOX_SQLITE_KILLS sets how many; 20 by default, 100 in the long proof. OUTBOX_TEST_SEED repeats a run.
"""
import collections
import os
import random
import signal
import subprocess
import sys
import time

import pytest

from support.sqlite_file import Outbox, needs_sqlite

pytestmark = needs_sqlite

KILLS = int(os.environ.get("OUTBOX_SQLITE_KILLS", "20"))

# A producer that has never heard of our library.
PLAIN_PRODUCER = """
import os, random, sqlite3, sys
path, ledger, seed = sys.argv[1:]
dice, ledger = random.Random(int(seed)), os.open(ledger, os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o644)
conn = sqlite3.connect(path, timeout=10, isolation_level=None)
for n in range(10 ** 9):
    order, lines, count = "py-%d-%d" % (os.getpid(), n), [], dice.randint(1, 3)
    conn.execute("BEGIN IMMEDIATE")
    conn.execute("INSERT INTO orders (id, messages) VALUES (?, ?)", (order, count))
    for _ in range(count):
        key = "k%d" % dice.randrange(8) if dice.randrange(3) else None
        conn.execute("INSERT INTO outbox (topic, payload, key, subject, max_attempts) VALUES ('orders', '{}', ?, ?, 1000)",
                     (key, order))
        row = conn.execute("SELECT id, seq FROM outbox_last").fetchone()
        lines.append("P %s %s %d\\n" % (row[0], key or "-", row[1] or 0))
    if dice.randrange(10) == 0:
        conn.execute("ROLLBACK")
        continue
    conn.execute("COMMIT")
    for line in lines:
        os.write(ledger, line.encode())
"""


class Crowd:
    """Two producers, one of them plain, and two workers; whoever dies is replaced."""

    def __init__(self, outbox, ledger, dice):
        self.outbox, self.ledger, self.dice, self.names = outbox, ledger, dice, 0
        self.members = [self.start(role) for role in ("produce", "plain", "work", "work")]

    def start(self, role):
        seed = self.dice.randrange(1 << 30)
        self.names += 1
        if role == "plain":
            command = [sys.executable, "-c", PLAIN_PRODUCER, self.outbox.path, self.ledger, str(seed)]
            return role, subprocess.Popen(command, stderr=subprocess.PIPE, text=True)
        more = ["w%d" % self.names] if role == "work" else []
        return role, self.outbox.start(role, self.ledger, seed, *more)

    def kill_one(self):
        index = self.dice.randrange(len(self.members))
        role, process = self.members[index]
        assert process.poll() is None, "a %s ended by itself: %s" % (role, process.stderr.read())
        process.send_signal(signal.SIGKILL)
        process.wait()
        self.members[index] = self.start(role)

    def end(self):
        for role, process in self.members:
            alive = process.poll() is None
            process.kill()
            process.wait()
            assert alive, "a %s ended by itself: %s" % (role, process.stderr.read())


def read_ledger(path):
    lines = [line.split() for line in open(path).read().splitlines()]
    return [(deed, message_id, key if key != "-" else None, int(seq)) for deed, message_id, key, seq in lines]


def check_balance(outbox, ledger):
    messages = {row[0]: row[1:] for row in outbox.sql("SELECT id, key, seq, subject, status FROM outbox_messages")}
    orders = dict(outbox.sql("SELECT id, messages FROM orders"))
    # M1: an order is there exactly with its messages.
    per_order = collections.Counter(subject for _, _, subject, _ in messages.values())
    assert per_order == orders
    accepted = collections.Counter()
    heads = collections.Counter()
    for deed, message_id, key, seq in read_ledger(ledger):
        assert message_id in messages, "%s of a message that was never committed: %s" % (deed, message_id)
        assert messages[message_id][:2] == (key, seq or None)
        if deed == "A":
            accepted[message_id] += 1
            if accepted[message_id] == 1 and key:
                assert seq == heads[key] + 1, "key %s: %d was accepted after %d" % (key, seq, heads[key])
                heads[key] = seq
    assert {row[3] for row in messages.values()} == {"delivered"}
    lost = set(messages) - set(accepted)
    assert not lost, "%d messages were delivered to nobody" % len(lost)
    for key, in outbox.sql("SELECT DISTINCT key FROM outbox_messages WHERE key IS NOT NULL"):
        seqs = [row[0] for row in outbox.sql("SELECT seq FROM outbox_messages WHERE key = ? ORDER BY seq", key)]
        assert seqs == list(range(1, len(seqs) + 1))
    # S6: numbers rise, one attempt delivered each message, and it is the last.
    assert outbox.sql("SELECT n FROM outbox_attempt GROUP BY n HAVING sum(outcome = 1) <> 1 OR"
                      " max(attempt_no) <> max(attempt_no) FILTER (WHERE outcome = 1)") == []
    return len(messages), sum(count - 1 for count in accepted.values())


def test_kills(tmp_path, capsys):
    """N7 M1 V10 M10 S14 N2 S2 S6: producers and workers die at random; nothing is lost, nothing is out of order."""
    seed = int(os.environ.get("OUTBOX_TEST_SEED", "0")) or random.randrange(1 << 30)
    dice = random.Random(seed)
    outbox, ledger = Outbox.create(tmp_path / "shop.db"), str(tmp_path / "ledger")
    outbox.sql("CREATE TABLE orders (id TEXT PRIMARY KEY, messages INTEGER NOT NULL)")
    crowd = Crowd(outbox, ledger, dice)
    try:
        for _ in range(KILLS):
            time.sleep(dice.random() * 0.15)  # a random point in their work; nothing waits for it
            crowd.kill_one()
        outbox.check_sound()
    finally:
        crowd.end()
    outbox.check_sound()
    outbox.actor("drain", ledger, timeout=120)
    messages, again = check_balance(outbox, ledger)
    outbox.check_sound()
    assert messages > KILLS
    with capsys.disabled():
        print(" [seed %d: %d kills, %d messages, %d delivered again]" % (seed, KILLS, messages, again), end="")


def test_the_ledger_would_notice(tmp_path):
    """N7: planted losses, ghosts and disorder are each found."""
    outbox, ledger = Outbox.create(tmp_path / "shop.db"), tmp_path / "ledger"
    outbox.sql("CREATE TABLE orders (id TEXT PRIMARY KEY, messages INTEGER NOT NULL)")
    conn = outbox.connect()
    conn.executescript("BEGIN; INSERT INTO orders VALUES ('o', 2);"
                       "INSERT INTO outbox (topic, payload, key, subject) VALUES ('t', '{}', 'k', 'o'), ('t', '{}', 'k', 'o');"
                       "COMMIT;")
    conn.close()
    outbox.actor("drain", ledger)
    good = ledger.read_text()
    check_balance(outbox, ledger)
    first, second = good.splitlines(keepends=True)
    for bad in (first, second + first, good + good.replace(first[2:10], "00000000")):
        ledger.write_text(bad)
        with pytest.raises(AssertionError):
            check_balance(outbox, ledger)
    ledger.write_text(good)
    outbox.sql("INSERT INTO orders VALUES ('without a message', 1)")
    with pytest.raises(AssertionError):
        check_balance(outbox, ledger)
