"""`outbox doctor` on real stores and real sinks: what is well, what is not, and what to do about it.

Proves: N6 (operators are told what is wrong and the command that mends it), S13 (by code), V13.
"""
import http.server
import json
import threading

import pytest

from support.chatservers import SlackServer, TelegramServer, WhatsAppServer, authority
from support.database import run_cli
from support.mailserver import MailServer
from support.pgserver import free_port
from support.receiver import Receiver, status


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
    assert found["default"]["level"] == "ok" and "0 pending" in found["default"]["text"]
    assert found["up"]["level"] == "ok"
    assert found["none"]["level"] == "ok"
    assert found["gone"]["level"] == "error" and "http_connect" in found["gone"]["text"]
    assert "reachable from" in found["gone"]["todo"]
    assert found["inside"]["level"] == "error" and "http_address_refused" in found["inside"]["text"]
    assert "`allow`" in found["inside"]["text"]
    assert found["program"]["level"] == "error" and '"no such"' in found["program"]["text"]
    assert requests == []  # nothing was sent


# ---- chats and mail

CHATS = {"slack": (SlackServer, {}), "telegram": (TelegramServer, {"chat": "42"}), "whatsapp": (WhatsAppServer, {})}


@pytest.fixture(scope="module")
def tls(tmp_path_factory):
    return authority(tmp_path_factory.mktemp("tls"))


@pytest.fixture
def store(tmp_path):
    url = "sqlite:%s" % (tmp_path / "a.db")
    run_cli("init", url)
    return url


def sink(kind, options, **more):
    """As the configuration has it: dotted names are maps."""
    made = {"kind": kind}
    for name, value in {**options, **more}.items():
        first, _, rest = name.partition(".")
        if rest:
            made.setdefault(first, {})[rest] = value
        else:
            made[first] = value
    return made


@pytest.mark.parametrize("kind", CHATS)
def test_chats(tmp_path, store, tls, kind):
    """N6: a good one is well; a wrong token, another server at its address, one that fails and nobody are not, and every
    finding says what to do. Nothing is sent."""
    make, more = CHATS[kind]
    with make(tls) as server, Receiver(status(200, {}, b"<html>welcome</html>")) as page, \
            Receiver(status(500, {}, b"{}")) as failing:
        good = server.options(**more)
        wrong = {**good, "token": "1:wrong" if kind == "telegram" else "wrong"}
        found = findings(write(tmp_path, store, {
            "good": sink(kind, good), "token": sink(kind, wrong), "page": sink(kind, good, url=page.url("")),
            "failing": sink(kind, good, url=failing.url("")),
            "gone": sink(kind, good, url="http://127.0.0.1:%d" % free_port())}), status=1)
        assert {request.method for request in server.requests + page.requests} == {"GET"}
    assert (found["good"]["level"], found["good"]["todo"]) == ("ok", None)
    assert [found[name]["level"] for name in ("token", "page", "failing", "gone")] == ["error"] * 4
    assert "credentials" in found["token"]["todo"]
    assert kind + "_unclear: status 200: expected JSON" in found["page"]["text"]
    assert "address" in found["page"]["todo"]
    assert "http_500" in found["failing"]["text"] and found["failing"]["todo"]
    assert "http_connect" in found["gone"]["text"] and "reachable from" in found["gone"]["todo"]
    assert not [row for row in found.values() if good["token"] in json.dumps(row)]


def test_chat_of_a_bot(tmp_path, store, tls):
    """N6: a chat that is not there would kill every message."""
    with TelegramServer(tls) as server:
        found = findings(write(tmp_path, store, {"news": sink("telegram", server.options(chat="@olds"))}), status=1)
    assert "chat not found" in found["news"]["text"] and "settings" in found["news"]["todo"]


def test_webhooks(tmp_path, store, tls):
    """N6: of a webhook only its host can be seen, and doctor says no more than that."""
    with SlackServer(tls) as server, Receiver() as receiver:
        found = findings(write(tmp_path, store, {
            "hook": sink("slack", server.webhook_options()),
            "nowhere": sink("slack", server.webhook_options(webhook="https://hooks.nowhere.invalid/services/SECRET")),
            "own": {"kind": "http", "url_header": "x-url", "url_allow": "https://example.org/"},
            "post": {"kind": "http", "url": receiver.url(), "allow": "127.0.0.0/8"}}), status=1)
        assert (server.requests, receiver.requests, server.connections) == ([], [], 1)
    for name, text in (("hook", "reachable"), ("post", "reachable"), ("own", "has its own URL")):
        assert found[name]["level"] == "ok" and text in found[name]["text"]
        assert "accepts messages" not in found[name]["text"]
    assert found["nowhere"]["level"] == "error" and "http_resolve" in found["nowhere"]["text"]
    assert "reachable from" in found["nowhere"]["todo"] and "SECRET" not in json.dumps(found)


def test_mail(tmp_path, store):
    """N6: a mail server that would take mail, one that does not know us, and none."""
    with MailServer(auth=("shop", "right")) as server:
        good = server.options(user="shop", password="right")
        found = findings(write(tmp_path, store, {
            "good": sink("smtp", good), "login": sink("smtp", good, password="wrong-SECRET"),
            "gone": sink("smtp", good, url="smtp://127.0.0.1:%d" % free_port())}), status=1)
        assert server.seen == []
    assert found["good"]["level"] == "ok"
    assert found["login"]["level"] == "error" and "smtp_535" in found["login"]["text"]
    assert "credentials" in found["login"]["todo"] and "SECRET" not in json.dumps(found)
    assert found["gone"]["level"] == "error" and "reachable from" in found["gone"]["todo"]


@pytest.mark.parametrize("retry, noted", [({}, False), ({"after_cap": "23h"}, True), ({"after_cap": "24h"}, False)])
def test_patience_that_is_cut_short_is_noted(tmp_path, store, tls, retry, noted):
    """N6: Meta asks for a day; less patience than that means to bother somebody every hour."""
    with WhatsAppServer(tls) as server:
        config = write(tmp_path, store, {"promo": sink("whatsapp", server.options(), retry=retry)})
        rows = json.loads(run_cli("doctor", "--config", config, "--json").stdout)["findings"]
    notes = [row["text"] for row in rows if row["level"] == "warning" and "sinks.promo.retry.after_cap" in row["text"]]
    assert ["set it to 24h" in note for note in notes] == ([True] if noted else [])


def test_store_not_migrated_and_gone(tmp_path, db):
    found = findings(write(tmp_path, db.url(), {"none": {"kind": "null"}}), status=0)
    assert found["default"]["level"] == "ok"
    db.sql("DROP SCHEMA outbox CASCADE")
    found = findings(write(tmp_path, db.url(), {"none": {"kind": "null"}}), status=1)
    assert found["default"]["level"] == "error" and "outbox migrate" in found["default"]["todo"]
    found = findings(write(tmp_path, "postgresql://postgres@127.0.0.1:%d/x" % free_port(), {"none": {"kind": "null"}}),
                     status=1)
    assert found["default"]["level"] == "error" and "cannot connect" in found["default"]["text"]


def test_dead_letters_are_noted(tmp_path, db):
    db.cli("send", "none.a", "{}", "--max-attempts", "1")
    db.sql("SELECT outbox.settle(array_agg(id), array_agg(token), array[3]) FROM outbox.claim('w')")
    config = write(tmp_path, db.url(), {"none": {"kind": "null"}})
    done = run_cli("doctor", "--config", config, "--json", check=False)  # dead letters that grow: of the last hour
    dead = next(row for row in json.loads(done.stdout)["findings"] if row["what"] == "dead")
    assert done.returncode == 1 and dead["level"] == "error" and "1 dead letters since an hour ago, in 1 topic: default/none.a" in dead["text"]
    db.sql("UPDATE outbox.dead SET died_at = now() - interval '2 h'")
    found = findings(config, status=0)
    assert found["default"]["level"] == "warning" and "--status dead" in found["default"]["todo"]


def test_many_partitions_are_noted(tmp_path, db):
    """S1 C6: before locks run out."""
    config = write(tmp_path, db.url(), {"out": {"kind": "null"}})
    assert "partitions" not in findings(config, 0)["default"]["text"]
    db.sql("INSERT INTO outbox.period SELECT now() - i * interval '1 year', now() - i * interval '1 year', 'x' || i, false, "
           "false FROM generate_series(1, 100) i")
    found = findings(config, 0)["default"]
    assert found["level"] == "warning" and "10" in found["text"] and "purge" in found["todo"]


def test_the_log(tmp_path, db):
    """V13: a log of another server, after a restore; windows that nobody settles and no relay takes up. And which lane is set."""
    config = write(tmp_path, db.url(), {"out": {"kind": "null"}})
    db.sql("SELECT outbox.configure('*', 'lane', 'log'), outbox.configure('old', 'lane', 'queue')")
    assert findings(config, 0)["default"]["text"].endswith("; lane log, of old queue")
    db.sql("SELECT outbox.enqueue('t', '1')")
    db.sql("SELECT outbox.take('gone', 10, '30 s', 1, null, null, 1, null, null, null, null, null)")
    assert findings(config, 0)["default"]["what"] == "store"
    db.sql("UPDATE outbox.log_window SET taken_at = taken_at - interval '70 s', until = until - interval '70 s' WHERE open")
    found = findings(config, 0)["default"]
    assert (found["what"], found["level"]) == ("log", "warning") and "1 window of the log, 1 messages" in found["text"]
    assert "gone" in found["text"] and "start a relay" in found["todo"]
    db.sql("SELECT outbox.beat('w')")
    assert findings(config, 0)["default"]["what"] == "store"
    db.sql("UPDATE outbox.log_window SET cluster = 1")
    found = findings(config, 0)["default"]
    assert (found["what"], found["level"]) == ("log", "warning") and "another server" in found["text"]
    assert db.sql(found["todo"].split(": ")[1]) == [(0,)]
    assert findings(config, 0)["default"]["what"] == "store"


def test_what_waits_in_silence(tmp_path, db):
    """V13 Y9: a pause, and a topic that no route leads from, fail nowhere; so they are noted."""
    config = write(tmp_path, db.url(), {"none": {"kind": "null"}})
    db.cli("send", "none.a", "{}")
    rows = json.loads(run_cli("doctor", "--config", config, "--json").stdout)["findings"]
    assert [row["what"] for row in rows] == ["config", "store", "sink"]
    db.cli("send", "other", "{}")
    db.cli("pause", "--sink", "none", "--force")
    rows = json.loads(run_cli("doctor", "--config", config, "--json").stdout)["findings"]
    pauses, routes = rows[2:4]
    assert (pauses["what"], pauses["level"]) == ("pauses", "warning") and pauses["text"].startswith("sink none by ")
    assert (routes["what"], routes["level"]) == ("routes", "warning") and routes["text"].endswith(": default/other")


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
        assert found["default"]["level"] == "ok"
    finally:
        db.sql("DROP ROLE nobody_yet")


def test_no_sinks_and_no_file(tmp_path):
    """N6: a store alone is enough for other commands and not for a relay; an SQLite file has no password to check."""
    store = "sqlite:%s" % (tmp_path / "none.db")
    config = tmp_path / "outbox.yaml"
    config.write_text(json.dumps({"store": store}))
    found = findings(config, status=1)
    assert found[str(config)]["level"] == "warning" and "--sample" in found[str(config)]["todo"]
    assert "outbox init" in found["default"]["text"] and found["default"]["todo"] is None


def test_one_missing_secret_hides_nothing_else(tmp_path):
    """N6 V13: what is missing is told, and the store and the other sinks are examined all the same."""
    run_cli("init", "sqlite:%s" % (tmp_path / "a.db"))
    config = write(tmp_path, "sqlite:%s" % (tmp_path / "a.db"), {
        "mail": {"kind": "smtp", "url": "smtp://127.0.0.1:1", "from": "a@b.example", "password": "${NOBODY_SET_THIS}"},
        "good": {"kind": "null"}})
    done = run_cli("doctor", "--config", config, "--json", check=False)
    rows = [(row["level"], row["what"], row["name"]) for row in json.loads(done.stdout)["findings"]]
    assert done.returncode == 1
    assert rows == [("error", "config", str(config)), ("ok", "store", "default"), ("ok", "sink", "good")]
    assert "NOBODY_SET_THIS is not set" in json.loads(done.stdout)["findings"][0]["text"]
    assert "1 problem found." in run_cli("doctor", "--config", config, check=False).stderr


def test_a_file_that_is_no_yaml(tmp_path):
    """N6: nothing else can be examined."""
    config = tmp_path / "o.yaml"
    config.write_text("relay:\n\tpoll: 1s\n")
    done = run_cli("doctor", "--config", config, check=False)
    assert done.returncode == 1 and "not with tabs" in done.stdout and "outbox validate" in done.stdout
