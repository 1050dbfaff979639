"""outbox init and migrate on SQLite files.

Proves: N1 (no server needed to start), N11 (migrations), and the refusals.
"""
import json
import os
import sqlite3
import subprocess

import pytest

from support.database import CLI, run_cli

pytestmark = pytest.mark.skipif("sqlite" not in json.loads(run_cli("version", "--json").stdout)["stores"],
                                reason="this build has no SQLite store")


@pytest.fixture
def path(tmp_path):
    return str(tmp_path / "outbox.db")


def applied(done):
    return [row["name"] for row in json.loads(done.stdout)["applied"]]


def states(path):
    done = run_cli("migrate", "--status", "--store", "sqlite:" + path, "--json", check=False)
    return {row["state"] for row in json.loads(done.stdout)["migrations"]}, done.returncode


def test_init_is_the_first_command(path):
    """N1: one command makes the file, and says what to type next; a second one changes nothing."""
    done = run_cli("init", "sqlite:" + path)
    assert "outbox send" in done.stderr and path in done.stderr
    assert run_cli("send", "hello", '{"world": 1}', env={"OUTBOX_STORE": "sqlite:" + path}).returncode == 0
    assert applied(run_cli("init", "sqlite:" + path, "--json")) == []
    assert applied(run_cli("migrate", "--store", "sqlite:" + path, "--json")) == []
    assert states(path) == ({"applied"}, 0)


def test_many_at_once(path):
    """N11: real processes on one new file; each migration is applied once, and nobody fails."""
    runs = [subprocess.Popen([CLI, "init", "sqlite:" + path, "--json"], stdout=subprocess.PIPE, stderr=subprocess.PIPE,
                             text=True) for _ in range(5)]
    done = [run.communicate(timeout=60) for run in runs]
    assert [run.returncode for run in runs] == [0] * 5, done
    counts = sorted(len(json.loads(out)["applied"]) for out, _ in done)
    assert counts[:4] == [0] * 4 and counts[4] > 0
    assert states(path) == ({"applied"}, 0)


def test_only_init_makes_a_file(path):
    """A mistyped path is told, not created."""
    for args in (["migrate"], ["migrate", "--status"], ["migrate", "--dry-run"], ["send", "t", "1"], ["list"]):
        done = run_cli(*args, "--store", "sqlite:" + path, check=False)
        assert done.returncode == 69 and "outbox init" in done.stderr, args
    assert not os.path.exists(path)


def test_print(path):
    """N11: what --print writes makes an outbox that migrate knows."""
    text = run_cli("migrate", "--print", "--store", "sqlite:").stdout
    conn = sqlite3.connect(path, isolation_level=None)
    conn.executescript(text)
    conn.close()
    assert states(path) == ({"applied"}, 0)
    assert applied(run_cli("migrate", "--store", "sqlite:" + path, "--json")) == []
    run_cli("send", "t", "1", "--store", "sqlite:" + path)
