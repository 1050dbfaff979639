"""`outbox bench`: figures and advice from an outbox of its own, which is gone afterwards, whatever happened.

Proves: N4 (what it can do is measured), V13; S5 (nothing of the user's is touched).
"""
import glob
import json
import os
import signal
import subprocess
import time

import pytest

from support.box import STORES, fresh_box
from support.database import CLI

PATIENCE = 120


@pytest.fixture(params=STORES)
def box(request, tmp_path):
    return fresh_box(request, tmp_path)


@pytest.fixture
def left(box, request):
    """What is there of benchmarks: files, schemas and roles."""
    if box.url.startswith("sqlite"):
        return lambda: glob.glob(box.url[len("sqlite:"):] + ".bench-*")
    db = request.getfixturevalue("db")
    return lambda: [row[0] for row in db.sql("SELECT nspname FROM pg_namespace WHERE nspname LIKE 'outbox_bench_%' "
                                             "UNION ALL SELECT rolname FROM pg_roles WHERE rolname LIKE 'outbox_bench_%'")]


def start(box, *args):
    return subprocess.Popen([CLI, "bench", "--store", box.url, *args], stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
                            stderr=subprocess.PIPE, text=True)


def wait_until(condition):
    until = time.monotonic() + PATIENCE
    while not condition():
        assert time.monotonic() < until
        time.sleep(0.02)


def test_figures(box, left):
    """N4 S5: rates, latencies and advice; the user's messages are as before; a database in use is asked for."""
    id_ = box.send("orders", "1")
    done = start(box, "--seconds", "3")
    assert "--yes" in done.communicate(timeout=PATIENCE)[1] and done.returncode == 2 and left() == []
    done = start(box, "--seconds", "3", "--yes", "--json")
    out, err = done.communicate(timeout=PATIENCE)
    assert done.returncode == 0, err
    answer = json.loads(out)
    for name in ("enqueue_1", "enqueue_8", "commit_p50_ms", "commit_p99_ms", "drain", "latency_p50_ms", "latency_p99_ms"):
        assert answer[name] > 0, answer
    assert answer["bytes_per_message"] >= (0 if box.url.startswith("sqlite") else 100)
    assert answer["latency_p50_ms"] <= answer["latency_p99_ms"] and answer["advice"]
    assert left() == []
    assert [row["id"] for row in box.list()] == [id_] and box.show(id_)["message"]["status"] == "pending"


def test_nothing_is_left(box, left):
    """S5: after Ctrl-C it is gone; after a kill the next run removes it."""
    running = start(box, "--seconds", "60")
    wait_until(left)
    time.sleep(0.5)
    running.send_signal(signal.SIGINT)
    out, err = running.communicate(timeout=PATIENCE)
    assert (running.returncode, out) == (1, "") and "removed" in err and left() == []
    killed = start(box, "--seconds", "60")
    wait_until(left)
    time.sleep(0.5)
    killed.kill()
    killed.communicate(timeout=PATIENCE)
    assert left()
    time.sleep(0.5)  # its sessions end
    after = start(box, "--seconds", "3")
    out, err = after.communicate(timeout=PATIENCE)
    assert after.returncode == 0 and "earlier run left behind" in err and "messages/s" in out and left() == [], err


def test_refused(box, left):
    """V13: what cannot be."""
    for args, word in ((["--seconds", "1"], "3 to 600"), (["--seconds", "x"], "whole number")):
        done = box.cli("bench", *args, check=False)
        assert done.returncode == 2 and word in done.stderr
    done = subprocess.run([CLI, "bench", "--store", "postgresql://nobody@127.0.0.1:1/none"], capture_output=True, text=True, timeout=PATIENCE)
    assert done.returncode == 69 and left() == []
