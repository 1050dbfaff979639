"""The wake-up on SQLite, and the lock that keeps relays apart.

Proves: S9 N4 (woken by a commit of any process, no busy polling, no wake-up lost), T1 N1 (one relay a file).
"""
import os
import signal
import subprocess
import time

import pytest

from support.sqlite_file import Outbox, needs_sqlite

pytestmark = needs_sqlite


@pytest.fixture
def outbox(tmp_path):
    box = Outbox.create(tmp_path / "shop.db")
    conn = box.connect()
    conn.execute("PRAGMA journal_mode = WAL")
    conn.execute("CREATE TABLE orders (id INTEGER PRIMARY KEY)")
    conn.close()
    return box


class Waiter:
    def __init__(self, outbox, timeout_ms):
        self.process = outbox.start("wait", timeout_ms)
        assert self.process.stdout.readline() == "ready\n"

    def begin(self):
        self.process.stdin.write("wait\n")
        self.process.stdin.flush()

    def result(self):
        word, ms, switches = self.process.stdout.readline().split()
        return word, int(ms), int(switches)

    def end(self):
        self.process.stdin.close()
        assert self.process.wait(timeout=30) == 0


@pytest.fixture
def waiter(outbox):
    waiters = []

    def start(timeout_ms):
        waiters.append(Waiter(outbox, timeout_ms))
        return waiters[-1]
    yield start
    for each in waiters:
        each.end()


SEND = "INSERT INTO outbox (topic, payload) VALUES ('t', '{}')"


def is_asleep(process):
    """In the kernel, waiting: as near as one can come to "it has begun to wait" from outside."""
    with open("/proc/%d/stat" % process.pid) as stat:
        return stat.read().rsplit(")", 1)[1].split()[0] == "S"


def until_asleep(process):
    while not is_asleep(process):
        os.sched_yield()


def test_a_commit_from_the_shell_wakes(outbox, waiter):
    """S9 N4: another process, another language; long before the fallback."""
    waiting = waiter(20000)
    for _ in range(3):
        waiting.begin()
        until_asleep(waiting.process)
        subprocess.run(["sqlite3", outbox.path, SEND], check=True)
        word, ms, _ = waiting.result()
        assert word == "woken" and ms < 5000
        outbox.actor("settle", 10, 1, 10)


def test_a_slow_commit_wakes(outbox, waiter):
    """S9 N4: pages can reach the log long before the commit that makes them seen."""
    waiting = waiter(20000)
    conn = outbox.connect()
    conn.execute("PRAGMA cache_size = 10")
    conn.execute("PRAGMA cache_spill = ON")
    conn.execute("BEGIN")
    conn.executemany("INSERT INTO outbox (topic, payload) VALUES ('t', ?)", [('"%s"' % ("x" * 3000),)] * 200)
    assert os.path.getsize(outbox.path + "-wal") > 100000
    waiting.begin()
    until_asleep(waiting.process)
    conn.execute("COMMIT")
    word, ms, _ = waiting.result()
    assert word == "woken" and ms < 10000
    conn.close()


def test_idle_means_idle(outbox, waiter):
    """S9: with nothing to do a wait of two seconds sleeps once or a few times, and lasts its time."""
    waiting = waiter(2000)
    waiting.begin()
    word, ms, switches = waiting.result()
    assert word == "timeout" and 1990 <= ms < 10000
    assert switches < 40
    waiting.begin()
    word, ms, switches = waiting.result()
    assert word == "timeout" and switches < 40


def test_commits_that_are_no_work(outbox, waiter):
    """N4: an application that writes to its own tables, a rollback, a message for later: none wakes."""
    waiting = waiter(1500)
    waiting.begin()
    until_asleep(waiting.process)
    conn = outbox.connect()
    for n in range(20):
        conn.execute("INSERT INTO orders VALUES (?)", (n,))
    conn.execute("BEGIN")
    conn.execute(SEND)
    conn.execute("ROLLBACK")
    conn.execute("INSERT INTO outbox (topic, payload, deliver_after) VALUES ('t', '{}', '2100-01-01')")
    word, ms, _ = waiting.result()
    assert word == "timeout" and ms >= 1490
    conn.close()


def test_due_times_wake(outbox, waiter):
    """S9 V9: a message for later wakes when its time has come, and so does the end of a lease."""
    waiting = waiter(20000)
    conn = outbox.connect()
    conn.execute("INSERT INTO outbox (topic, payload, deliver_after) VALUES ('t', '{}', ?)",
                 (int((time.time() + 0.7) * 1e6),))
    waiting.begin()
    word, ms, _ = waiting.result()
    assert word == "woken" and ms < 5000
    outbox.actor("claim", 1, 1)
    conn.execute("UPDATE outbox_queue SET until = ?", (int((time.time() + 0.7) * 1e6),))
    waiting.begin()
    word, ms, _ = waiting.result()
    assert word == "woken" and ms < 5000
    conn.close()


def test_paused_work_does_not_spin(outbox, waiter):
    """S9 T4: due work that nobody may take wakes nobody, until it is resumed."""
    outbox.cli("pause", "--namespace", "default", "--force", "--reason", "test")
    outbox.sql(SEND)
    waiting = waiter(700)
    for _ in range(2):
        waiting.begin()
        assert waiting.result()[0] == "timeout"
    waiting.begin()
    until_asleep(waiting.process)
    outbox.cli("resume", "--namespace", "default", "--reason", "test")
    assert waiting.result()[0] == "woken"


def test_a_log_made_anew(outbox, waiter):
    """S9: a checkpoint that empties the log, by somebody else, loses no wake-up."""
    waiting = waiter(20000)
    outbox.sql("PRAGMA wal_checkpoint(TRUNCATE)")
    waiting.begin()
    until_asleep(waiting.process)
    outbox.sql("PRAGMA wal_checkpoint(TRUNCATE)")
    outbox.sql(SEND)
    word, ms, _ = waiting.result()
    assert word == "woken" and ms < 5000


# ---- one relay a file ------------------------------------------------------------------------------------------------------


def test_a_second_relay_is_refused(outbox, tmp_path):
    """T1 N1: it says who has the file; by another name of it too."""
    first = outbox.start("lock")
    assert first.stdout.readline() == "locked\n"
    link = tmp_path / "link.db"
    os.symlink(outbox.path, link)
    for path in (outbox.path, str(link), outbox.path + "?synchronous=normal"):
        second = Outbox(path).actor("lock", check=False, stdin=subprocess.DEVNULL)
        assert second.returncode == 75
        assert "LOCKED" in second.stderr and "process %d" % first.pid in second.stderr, second
    first.stdin.close()
    first.wait()
    assert outbox.actor("lock", stdin=subprocess.DEVNULL).stdout == "locked\n"


def test_a_crash_leaves_no_lock(outbox):
    """T1 N1: the kernel frees it."""
    for _ in range(3):
        holder = outbox.start("lock")
        assert holder.stdout.readline() == "locked\n"
        holder.send_signal(signal.SIGKILL)
        holder.wait()
    assert outbox.actor("lock", stdin=subprocess.DEVNULL).stdout == "locked\n"


def test_the_lock_keeps_no_producer_out(outbox):
    """N4: it is the relay's affair alone."""
    holder = outbox.start("lock")
    assert holder.stdout.readline() == "locked\n"
    outbox.sql(SEND)
    assert outbox.cli("list").returncode == 0
    holder.stdin.close()
    holder.wait()
