"""`outbox doctor` on real stores and real sinks: what is well, what is not, and what to do about it.

Proves: N6 (operators are told what is wrong and the command that mends it), S13 (by code), V13.
"""
import http.server
import json
import threading

import pytest

from support.database import run_cli
from support.pgserver import free_port


@pytest.fixture
def receiver():
    class Handler(http.server.BaseHTTPRequestHandler):
        requests = []

        def do_POST(self):
            self.requests.append(self.path)

        def log_message(self, *args):
            pass

    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    yield server, Handler.requests
    server.shutdown()
    server.server_close()


def write(tmp_path, store, sinks):
    config = tmp_path / "outbox.yaml"
    config.write_text(json.dumps({"store": store, "sinks": sinks,
                                  "routes": [{"topic": name + ".*", "sink": name} for name in sinks]}))
    return config


def findings(config, status):
    done = run_cli("doctor", "--config", config, "--json", check=False)
    assert done.returncode == status, done.stdout + done.stderr
    return {row["name"]: row for row in json.loads(done.stdout)["findings"]}


def test_well_and_not_well(tmp_path, receiver):
    server, requests = receiver
    store = "sqlite:%s" % (tmp_path / "a.db")
    run_cli("init", store)
    loopback = {"kind": "http", "allow": ["127.0.0.0/8"]}
    found = findings(write(tmp_path, store, {
        "up": {**loopback, "url": "http://127.0.0.1:%d/hook" % server.server_address[1]},
        "gone": {**loopback, "url": "http://127.0.0.1:%d/hook" % free_port()},
        "inside": {"kind": "http", "url": "http://127.0.0.1:%d/hook" % server.server_address[1]},
        "none": {"kind": "null"},
        "program": {"kind": "exec", "command": ["no such"]},
    }), status=1)
    assert found["default"]["finding"] == "ok" and "0 pending" in found["default"]["text"]
    assert found["up"]["finding"] == "ok"
    assert found["none"]["finding"] == "ok"
    assert found["gone"]["finding"] == "bad" and "http_connect" in found["gone"]["text"]
    assert "reach it" in found["gone"]["todo"]
    assert found["inside"]["finding"] == "bad" and "http_address_refused" in found["inside"]["text"]
    assert "`allow`" in found["inside"]["text"]
    assert found["program"]["finding"] == "bad" and '"no such"' in found["program"]["text"]
    assert requests == []  # nothing was sent


def test_store_not_migrated_and_gone(tmp_path, db):
    found = findings(write(tmp_path, db.url(), {"none": {"kind": "null"}}), status=0)
    assert found["default"]["finding"] == "ok"
    db.sql("DROP SCHEMA outbox CASCADE")
    found = findings(write(tmp_path, db.url(), {"none": {"kind": "null"}}), status=1)
    assert found["default"]["finding"] == "bad" and "outbox migrate" in found["default"]["todo"]
    found = findings(write(tmp_path, "postgresql://postgres@127.0.0.1:%d/x" % free_port(), {"none": {"kind": "null"}}),
                     status=1)
    assert found["default"]["finding"] == "bad" and "cannot connect" in found["default"]["text"]


def test_dead_letters_are_noted(tmp_path, db):
    db.cli("send", "none.a", "{}", "--max-attempts", "1")
    db.sql("SELECT outbox.settle(array_agg(id), array_agg(token), array[3]) FROM outbox.claim('w')")
    found = findings(write(tmp_path, db.url(), {"none": {"kind": "null"}}), status=0)
    assert found["default"]["finding"] == "note" and "--status dead" in found["default"]["todo"]


def test_what_waits_in_silence(tmp_path, db):
    """V13 Y9: a pause, and a topic that no route leads from, fail nowhere; so they are noted."""
    config = write(tmp_path, db.url(), {"none": {"kind": "null"}})
    db.cli("send", "none.a", "{}")
    rows = json.loads(run_cli("doctor", "--config", config, "--json").stdout)["findings"]
    assert [row["what"] for row in rows] == ["config", "store", "sink"]
    db.cli("send", "other", "{}")
    db.cli("pause", "--destination", "none")
    rows = json.loads(run_cli("doctor", "--config", config, "--json").stdout)["findings"]
    pauses, routes = rows[2:4]
    assert (pauses["what"], pauses["finding"], pauses["text"]) == ("pauses", "note", "destination none")
    assert (routes["what"], routes["finding"]) == ("routes", "note") and routes["text"].endswith(": default/other")


def test_a_missing_right_is_never_the_owners(tmp_path, db):
    """N6: a login without rights is told the relay's role, never one that roles.md says to grant to nobody."""
    db.sql("CREATE ROLE nobody_yet LOGIN")
    try:
        found = findings(write(tmp_path, db.url("nobody_yet"), {"none": {"kind": "null"}}), status=1)
        assert 'GRANT "outbox_relay" TO "nobody_yet"' in found["default"]["text"]
        db.sql("GRANT outbox_auditor TO nobody_yet")  # sees all, and may deliver nothing
        found = findings(write(tmp_path, db.url("nobody_yet"), {"none": {"kind": "null"}}), status=1)
        assert 'GRANT "outbox_relay" TO "nobody_yet"' in found["default"]["text"]
        db.sql("REVOKE outbox_auditor FROM nobody_yet; GRANT outbox_relay TO nobody_yet")
        found = findings(write(tmp_path, db.url("nobody_yet"), {"none": {"kind": "null"}}), status=0)
        assert found["default"]["finding"] == "ok"
    finally:
        db.sql("DROP ROLE nobody_yet")


def test_no_sinks_and_no_file(tmp_path):
    """N6: a store alone is enough for other commands and not for a relay; an SQLite file has no password to check."""
    store = "sqlite:%s" % (tmp_path / "none.db")
    config = tmp_path / "outbox.yaml"
    config.write_text(json.dumps({"store": store}))
    found = findings(config, status=1)
    assert found[str(config)]["finding"] == "note" and "--sample" in found[str(config)]["todo"]
    assert "outbox init" in found["default"]["text"] and found["default"]["todo"] is None
