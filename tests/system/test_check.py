"""`outbox check`: one line, an exit status as Nagios reads it, performance data, JSON, and a file for node_exporter.

Proves: S16 Y6 (alerts at two levels), V13 (operators see), S13.
"""
import json
import os
import re
import shutil
import socket
import subprocess
import threading
import time

import pytest

from support.box import STORES, Box, fresh_box
from support.database import run_cli

QUIET = ["--relays", "-:-", "--oldest", "-:-"]


@pytest.fixture(params=STORES)
def box(request, tmp_path):
    return fresh_box(request, tmp_path)


def check(box, *args):
    done = box.cli("check", *args, check=False)
    assert done.stderr == "" and len(done.stdout.splitlines()) == 1, (done.stdout, done.stderr)
    word = {0: "OK", 1: "WARNING", 2: "CRITICAL", 3: "UNKNOWN"}[done.returncode]
    assert done.stdout.startswith("OUTBOX %s - " % word), done.stdout
    return done.returncode, done.stdout


def figures(box, *args):
    done = box.cli("check", *args, "--json", check=False)
    answer = json.loads(done.stdout)
    assert ["ok", "warning", "critical", "unknown"].index(answer["status"]) == done.returncode
    return {row["name"]: row for row in answer["checks"]}


def test_levels(box):
    """S16 Y6: each figure has a warning and a critical level, - is none, and the worst is the exit status."""
    status, line = check(box)
    assert status == 2 and "no relay is running" in line
    assert check(box, "--relays", "-:-")[0] == 0
    assert check(box, "--relays", "1:-")[0] == 1
    for number in range(3):
        box.kill("orders", str(number))
    assert check(box, *QUIET)[0] == 1 and "3 died in the last hour" in check(box, *QUIET)[1]
    assert check(box, *QUIET, "--dead-last-hour", "4:9")[0] == 0
    assert check(box, *QUIET, "--dead-last-hour", "1:3")[0] == 2
    assert check(box, *QUIET, "--dead-last-hour", "-:-", "--dead", "3:9")[0] == 1
    status, line = check(box, *QUIET, "--dead-last-hour", "-:-", "--dead", "1:3")
    assert status == 2 and "3 dead letters" in line
    box.send("mail", "1")
    time.sleep(0.02)
    assert check(box, "--relays", "-:-", "--dead-last-hour", "-:-", "--oldest", "10ms:1h")[0] == 1
    assert check(box, "--relays", "-:-", "--dead-last-hour", "-:-", "--oldest", "1ms:10ms")[0] == 2
    assert check(box, *QUIET, "--dead-last-hour", "1:2", "--topic", "mail")[0] == 0
    assert check(box, *QUIET, "--dead-last-hour", "1:2", "--topic", "o*")[0] == 2


def test_retries_and_breakers(box, request):
    """S13: the share of retries, from ten on; open breakers; a relay that is switched off does not count."""
    for number in range(12):
        box.send("orders", str(number))
    box.settle(2, code="http_503", error="busy")
    rows = figures(box, *QUIET)
    assert rows["retry_share"]["value"] == 100 and rows["retry_share"]["status"] == "critical" and "list" in rows["retry_share"]["todo"]
    assert check(box, *QUIET, "--retry-share", "-:-")[0] == 0
    info = json.dumps({"enabled": True, "sinks": [{"name": "a", "breaker": "open"}, {"name": "b", "breaker": "closed"}]})
    beat(box, request, "w", info)
    rows = figures(box)
    assert (rows["relays"]["value"], rows["relays"]["status"]) == (1, "ok")
    assert (rows["breakers_open"]["value"], rows["breakers_open"]["status"]) == (1, "warning")
    assert figures(box, "--breakers", "1:1")["breakers_open"]["status"] == "critical"
    beat(box, request, "w", json.dumps({"enabled": False}))
    assert figures(box)["relays"]["value"] == 0 and "switched off" in check(box)[1]


def beat(box, request, worker, info):
    if box.url.startswith("sqlite"):
        import contextlib
        import sqlite3
        now = int(time.time() * 1e6)
        with contextlib.closing(sqlite3.connect(box.url[len("sqlite:"):])) as conn, conn:
            conn.execute("delete from outbox_relay")
            conn.execute("insert into outbox_relay values (?, 'h', 1, 'v', 'running', ?, ?, 60000000, ?)", (worker, now, now, info))
    else:
        request.getfixturevalue("db").sql("select outbox.beat(%s, 'h', 1, 'v', info => %s::jsonb)", worker, info)


def test_performance_data(box):
    """Y6: the plugin's form: 'label'=value[unit];warning;critical;minimum;maximum."""
    box.kill("orders", "1")
    _, line = check(box, "--oldest", "90s:1h", "--dead", "-:7")
    text, data = line.strip().split(" | ")
    assert "|" not in text
    found = dict(word.split("=") for word in data.split())
    assert found["dead"] == "1;;7;0" and found["relays"] == "0;1:;1:;0" and found["retry_share"] == "0%;50;90;0;100"
    assert re.fullmatch(r"[\d.]+s;90;3600;0", found["oldest"]) and found["pending"] == "0;;;0"


def test_unknown(box, tmp_path):
    """Y6: what cannot be judged is 3; what cannot be reached is 2."""
    for args in (["--dead", "7"], ["--dead", "9:1"], ["--dead", "a:b"], ["--retry-share", "1:101"], ["--oldest", "1:2"],
                 ["--relays", "1:2"], ["--timeout", "1ms"], ["--dead", "1:" + "9" * 80]):
        done = box.cli("check", *args, check=False)
        assert done.returncode == 3 and done.stdout.startswith("OUTBOX UNKNOWN - --"), done.stdout
    assert run_cli("check", "--store", "postgresql://nobody@127.0.0.1:1/none", check=False).returncode == 2
    (tmp_path / "text.db").write_text("no database at all, but long enough to be looked at" * 40)
    assert run_cli("check", "--store", "sqlite:%s" % (tmp_path / "text.db"), check=False).returncode == 3


def test_the_file(box, tmp_path):
    """S16: the textfile of node_exporter: names as in /metrics, replaced as a whole, nothing left behind; also when all else fails."""
    box.kill("orders", "1")
    file = tmp_path / "prom" / "outbox.prom"
    file.parent.mkdir()
    check(box, "--prometheus", str(file))
    text = file.read_text()
    values = dict(re.findall(r"^(\w+)\{store=\"default\"\} (\S+)$", text, re.M))
    assert values["outbox_dead"] == "1" and values["outbox_dead_last_hour"] == "1" and values["outbox_check_status"] == "2"
    assert float(values["outbox_check_timestamp_seconds"]) > time.time() - 600 and values["outbox_check_relays"] == "0"
    for name in values:
        assert re.search(r"^# HELP %s .+\n# TYPE %s gauge\n" % (name, name), text, re.M)
    with open(os.path.join(os.path.dirname(__file__), "..", "..", "def", "metrics.def")) as metrics:
        known = set(re.findall(r'"(outbox_\w+)"', metrics.read()))
    assert {name for name in values if not name.startswith("outbox_check_")} <= known
    if shutil.which("promtool"):
        done = subprocess.run(["promtool", "check", "metrics"], input=text, text=True, capture_output=True)
        assert done.returncode in (0, 3), done.stderr  # 3: remarks about style
    assert os.listdir(file.parent) == ["outbox.prom"] and os.stat(file).st_mode & 0o777 == 0o644
    run_cli("check", "--store", "postgresql://nobody@127.0.0.1:1/none", "--prometheus", str(file), check=False)
    assert 'outbox_check_status{store="default"} 2\n' in file.read_text() and "outbox_dead" not in file.read_text()
    done = box.cli("check", *QUIET, "--dead-last-hour", "-:-", "--prometheus", str(tmp_path / "none" / "x.prom"), check=False)
    assert done.returncode == 3 and "x.prom" in done.stderr


def test_it_always_ends(db):
    """Y6: a statement that waits is cancelled by the server; a server that says nothing ends the check too."""
    box = Box(db.url())
    with db.connect() as conn:
        conn.execute("LOCK TABLE outbox.queue IN ACCESS EXCLUSIVE MODE")
        status, line = check(box, "--timeout", "1s")
        assert status == 2, line
    silent = socket.create_server(("127.0.0.1", 0))
    held = []
    thread = threading.Thread(target=lambda: held.append(silent.accept()), daemon=True)
    thread.start()
    url = "postgresql://x@127.0.0.1:%d/x?sslmode=disable" % silent.getsockname()[1]
    done = run_cli("check", "--store", url, "--timeout", "1s", check=False)
    assert done.returncode == 2 and done.stdout.startswith("OUTBOX CRITICAL - "), done.stdout
    done = run_cli("check", "--store", url, "--timeout", "1s", "--json", check=False)
    assert done.returncode == 2 and json.loads(done.stdout)["status"] == "critical"
    silent.close()
