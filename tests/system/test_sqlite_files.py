"""Files that are full, read-only, damaged, somebody else's, or of another version: a clear error, nothing lost, nothing
overwritten.

Proves: N1 (the embedded default), M1 V3 (fail closed), N11 (versions).
"""
import json
import os
import resource
import shutil
import signal
import sqlite3
import subprocess

import pytest

from support.database import CLI, run_cli
from support.sqlite_file import ACTOR, Outbox, needs_sqlite

pytestmark = needs_sqlite

FULL, READONLY, CORRUPT, SCHEMA, UNREACHABLE = 75, 77, 65, 78, 69


@pytest.fixture
def outbox(tmp_path):
    return Outbox.create(tmp_path / "shop.db")


def bytes_of(path):
    with open(path, "rb") as file:
        return file.read()


def cli(path, *args):
    return run_cli(*args, "--store", "sqlite:%s" % path, check=False)


def limit_files(size):
    """For a child: files can grow to so many bytes, and a write beyond is an error, not a signal."""
    def limit():
        signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
        resource.setrlimit(resource.RLIMIT_FSIZE, (size, size))
    return limit


# ---- full --------------------------------------------------------------------------------------------------------------


def test_full_for_a_producer(outbox):
    """M1 V3: a plain producer that runs out of pages rolls back; what was there stays, and room again means work again."""
    conn = outbox.connect()
    conn.execute("INSERT INTO outbox (topic, payload) VALUES ('t', '{}')")
    conn.execute("CREATE TABLE orders (id INTEGER PRIMARY KEY)")
    pages = conn.execute("PRAGMA page_count").fetchone()[0]
    conn.execute("PRAGMA max_page_count = %d" % (pages + 2))
    conn.execute("BEGIN")
    conn.execute("INSERT INTO orders VALUES (1)")
    with pytest.raises(sqlite3.Error, match="full"):
        conn.execute("INSERT INTO outbox (topic, payload) VALUES ('t', ?)", (json.dumps("x" * 100000),))
    if conn.in_transaction:
        conn.execute("ROLLBACK")
    assert conn.execute("SELECT count(*) FROM outbox_messages").fetchone() == (1,)
    assert conn.execute("SELECT count(*) FROM orders").fetchone() == (0,)
    conn.execute("PRAGMA max_page_count = %d" % (pages + 1000))
    conn.execute("INSERT INTO outbox (topic, payload) VALUES ('t', ?)", (json.dumps("x" * 100000),))
    outbox.check_sound()
    assert len(outbox.actor("claim", 10, 1).stdout.splitlines()) == 2


def test_full_for_a_worker(outbox):
    """M10 V10: a worker that cannot write is told so; what it would have claimed or settled is still there."""
    conn = outbox.connect()
    conn.execute("BEGIN")
    for _ in range(400):
        conn.execute("INSERT INTO outbox (topic, payload) VALUES ('t', '{}')")
    conn.execute("COMMIT")
    conn.execute("PRAGMA wal_checkpoint(TRUNCATE)")
    before = outbox.dump()
    for verb in (("claim", 400, 1), ("settle", 400, 1, 0)):
        done = outbox.actor(*verb, check=False, preexec_fn=limit_files(16384))
        assert done.returncode == FULL and "FULL" in done.stderr and "nothing was lost" in done.stderr, done
        assert outbox.dump() == before
    assert len(outbox.actor("settle", 400, 1, 0).stdout.splitlines()) == 400
    outbox.check_sound()


def test_full_for_the_command_line(outbox):
    """V3: exit 75 and the reason."""
    done = run_cli("send", "t", json.dumps(os.urandom(45000).hex()), "--store", "sqlite:" + outbox.path, check=False)
    assert done.returncode == 0
    outbox.sql("PRAGMA wal_checkpoint(TRUNCATE)")
    done = subprocess.run([CLI, "send", "t", "-", "--store", "sqlite:" + outbox.path], input=json.dumps(os.urandom(45000).hex()),
                          text=True, stdout=subprocess.PIPE, stderr=subprocess.PIPE, preexec_fn=limit_files(32768))
    assert done.returncode == FULL and "no space left" in done.stderr, done
    assert outbox.value("SELECT count(*) FROM outbox_messages") == 1
    outbox.check_sound()


# ---- read-only ---------------------------------------------------------------------------------------------------------


@pytest.fixture
def nobody():
    """Runs a child without root's rights, which no file mode can stop."""
    if os.geteuid() != 0:
        return None

    def drop():
        os.setgroups([])
        os.setgid(65534)
        os.setuid(65534)
    return drop


def test_read_only_file(outbox, tmp_path, nobody):
    """M1: reading works, writing says what is wrong, the file does not change."""
    outbox.sql("INSERT INTO outbox (topic, payload) VALUES ('t', '{}')")
    outbox.sql("PRAGMA wal_checkpoint(TRUNCATE)")
    outbox.sql("PRAGMA journal_mode = DELETE")
    os.chmod(outbox.path, 0o444)
    os.chmod(tmp_path, 0o755)
    for parent in tmp_path.parents:
        if os.stat(parent).st_uid == os.geteuid() and parent != parent.parent and os.stat(parent).st_mode & 0o777 == 0o700:
            os.chmod(parent, 0o755)
    before = bytes_of(outbox.path)
    program = shutil.copy(ACTOR, tmp_path)  # the build may be where others cannot go
    done = outbox.actor("claim", 1, 1, check=False, program=program, preexec_fn=nobody)
    assert done.returncode == READONLY and "READONLY" in done.stderr, done
    assert bytes_of(outbox.path) == before
    os.chmod(outbox.path, 0o644)
    assert len(outbox.actor("claim", 1, 1).stdout.splitlines()) == 1


# ---- damaged, and not ours -----------------------------------------------------------------------------------------------


def test_no_database(tmp_path):
    """A text file is refused by every command and left as it is."""
    path = tmp_path / "notes.txt"
    path.write_text("Dear diary, " * 500)
    before = bytes_of(path)
    for args in (["init"], ["migrate"], ["migrate", "--status"], ["send", "t", "{}"], ["list"], ["status"]):
        done = cli(path, *args)
        assert done.returncode == CORRUPT and "not an SQLite database" in done.stderr, (args, done)
    assert bytes_of(path) == before
    assert os.listdir(tmp_path) == ["notes.txt"]


def test_damaged(outbox):
    """A page of rubbish inside is an error of its own, not a wrong answer."""
    conn = outbox.connect()
    conn.execute("BEGIN")
    for n in range(2000):
        conn.execute("INSERT INTO outbox (topic, payload) VALUES ('t', ?)", ('{"n": %d}' % n,))
    conn.execute("COMMIT")
    conn.execute("PRAGMA wal_checkpoint(TRUNCATE)")
    root = conn.execute("SELECT rootpage FROM sqlite_schema WHERE name = 'outbox_queue'").fetchone()[0]
    conn.close()
    with open(outbox.path, "r+b") as file:
        file.seek((root - 1) * 4096)
        file.write(os.urandom(4096))
    before = bytes_of(outbox.path)
    done = outbox.actor("claim", 10, 1, check=False)
    assert done.returncode == CORRUPT and "CORRUPT" in done.stderr, done
    assert bytes_of(outbox.path) == before


def test_empty_and_missing(tmp_path):
    """N1: an empty file is not an outbox until init says so; a missing one is not made by accident."""
    empty = tmp_path / "empty.db"
    empty.touch()
    done = cli(empty, "send", "t", "{}")
    assert done.returncode == SCHEMA and "outbox init" in done.stderr
    assert bytes_of(empty) == b""
    assert cli(tmp_path / "missing.db", "list").returncode == UNREACHABLE
    assert cli(tmp_path / "no" / "such" / "folder.db", "init").returncode == UNREACHABLE
    assert cli(tmp_path, "init").returncode != 0
    assert sorted(os.listdir(tmp_path)) == ["empty.db"]
    assert cli(empty, "init").returncode == 0 and cli(empty, "send", "t", "{}").returncode == 0


def application(path):
    conn = sqlite3.connect(path)
    conn.executescript("PRAGMA application_id = 4711; PRAGMA user_version = 12; CREATE TABLE orders (id INTEGER PRIMARY KEY);"
                       "INSERT INTO orders VALUES (1);")
    conn.close()
    return bytes_of(path)


def test_a_database_of_an_application(tmp_path):
    """N1: left alone until init adds an outbox to it, which takes over neither its tables nor its numbers."""
    path = tmp_path / "app.db"
    before = application(path)
    for args in (["send", "t", "{}"], ["list"], ["status"], ["claim"]):
        done = cli(path, *args)
        assert done.returncode in (SCHEMA, 2)
    assert bytes_of(path) == before and os.listdir(tmp_path) == ["app.db"]
    assert cli(path, "init").returncode == 0
    assert cli(path, "send", "t", "{}").returncode == 0
    conn = sqlite3.connect(path)
    assert conn.execute("PRAGMA application_id").fetchone() == (4711,)
    assert conn.execute("PRAGMA user_version").fetchone() == (12,)
    assert conn.execute("SELECT id FROM orders").fetchall() == [(1,)]
    conn.close()


def test_names_that_are_taken(tmp_path):
    """N1 N10: an application that has a table named outbox keeps it, and is told."""
    path = tmp_path / "app.db"
    conn = sqlite3.connect(path)
    conn.executescript("CREATE TABLE Outbox (id INTEGER PRIMARY KEY, payload TEXT); INSERT INTO outbox VALUES (1, 'mine');")
    conn.close()
    before = bytes_of(path)
    done = cli(path, "init")
    assert done.returncode == SCHEMA and '"Outbox"' in done.stderr and "rename" in done.stderr, done
    assert bytes_of(path) == before


def test_another_encoding(tmp_path):
    """An UTF-16 database is told, not spoiled."""
    path = tmp_path / "wide.db"
    conn = sqlite3.connect(path)
    conn.executescript("PRAGMA encoding = 'UTF-16le'; CREATE TABLE t (a);")
    conn.close()
    before = bytes_of(path)
    done = cli(path, "init")
    assert done.returncode == 2 and "UTF-8" in done.stderr, done
    assert bytes_of(path) == before


# ---- versions ------------------------------------------------------------------------------------------------------------


def test_a_newer_version(outbox):
    """N11: a file that a newer version has migrated is refused by all commands, and not written."""
    outbox.sql("INSERT INTO outbox_migration VALUES (999, '999_future', 'f00', 1)")
    outbox.sql("PRAGMA wal_checkpoint(TRUNCATE)")
    before = outbox.dump()
    for args in (["init"], ["migrate"], ["send", "t", "{}"], ["list"], ["status"]):
        done = cli(outbox.path, *args)
        assert done.returncode == SCHEMA and "newer version" in done.stderr and "999_future" in done.stderr, (args, done)
    assert outbox.dump() == before
    assert outbox.actor("claim", 1, 1, check=False).returncode == SCHEMA


def test_an_older_version(outbox):
    """N11: a file that lacks a migration says which, and what to run."""
    outbox.sql("DELETE FROM outbox_migration WHERE version = 4")
    done = cli(outbox.path, "send", "t", "{}")
    assert done.returncode == SCHEMA and "004_enqueue" in done.stderr and "outbox migrate" in done.stderr, done


def test_a_changed_migration(outbox):
    """N11: a migration that was applied with another text stops migrate."""
    outbox.sql("UPDATE outbox_migration SET sha256 = 'another' WHERE version = 2")
    done = cli(outbox.path, "migrate")
    assert done.returncode == SCHEMA and "002_guards" in done.stderr, done
