"""The command line: what a person types first, and what a script relies on.

Proves: V13 (operators see, list, inspect, requeue), T4 (acts on record), and the exit codes and forms of output that
scripts are promised.
"""
import base64
import datetime
import json
import os
import pty
import re
import subprocess
import uuid

import pytest

from support.box import STORES, Box, fresh_box
from support.database import CLI, run_cli

COMMANDS = ["init", "migrate", "send", "status", "list", "tail", "show", "explain", "errors", "retry", "discard", "skip", "redeliver",
            "expire", "move", "pause", "resume", "tune",
            "configure", "token", "purge", "run", "dev", "doctor", "check", "top", "bench", "validate", "config", "version", "help"]
TENANT = "0a0a0a0a-1111-4222-8333-444444444444"
UNKNOWN = "01900000-0000-7000-8000-000000000000"
NO_STORE = {"OUTBOX_STORE": "", "DATABASE_URL": ""}


@pytest.fixture(params=STORES)
def box(request, tmp_path):
    """A fresh outbox, once in every store that the build has."""
    return fresh_box(request, tmp_path)


# ---- help and usage --------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("command", COMMANDS)
def test_every_command_helps_with_an_example(command):
    """Help is on stdout, names the options, and its example begins with the program."""
    done = run_cli(command, "--help", env=NO_STORE)
    assert done.stderr == ""
    assert done.stdout.startswith("outbox %s - " % command)
    assert "--json" in done.stdout and "\nexample:\n  outbox %s" % command in done.stdout
    assert run_cli("help", command).stdout == done.stdout


def test_help_lists_every_command():
    """And without a word on the line it is an error, told on stderr."""
    done = run_cli("--help")
    assert re.findall(r"^  (\w+) ", done.stdout, re.M) == COMMANDS
    bare = run_cli(check=False)
    assert (bare.returncode, bare.stdout, bare.stderr) == (2, "", done.stdout)


@pytest.mark.parametrize("args, words", [
    (["sned"], ['unknown command "sned"', 'mean "send"']),
    (["qqqqqq"], ['unknown command "qqqqqq"']),
    (["send", "t"], ["missing", "TOPIC PAYLOAD"]),
    (["send", "t", "1", "2"], ['unexpected argument "2"']),
    (["send", "t", "1", "--dedup-key", "x"], ["--dedup-key", "--dedupe-key"]),
    (["send", "t", "1", "--key"], ["--key needs a value"]),
    (["send", "t", "1", "--json=yes"], ["takes no value"]),
    (["send", "t", "1", "-x"], ["two dashes"]),
    (["send", "t", "1", "--priority", "high"], ["whole number"]),
    (["send", "t", "1", "--priority", "10"], ["0 to 9"]),
    (["send", "t", "1", "--max-attempts", "0"], ["1 to 1000"]),
    (["send", "t", "1", "--deliver-after", "tomorrow"], ["--deliver-after", "tomorrow"]),
    (["send", "t", "1", "--deliver-after", "2024-02-30T00:00:00Z"], ["2024-02-30"]),
    (["send", "t", "1", "--header", "novalue"], ["NAME=VALUE"]),
    (["send", "t", "@does-not-exist"], ["does-not-exist", "No such file"]),
    (["list", "--status", "odd"], ["pending, processing"]),
    (["list", "--limit", "0"], ["1 to 1000000"]),
    (["list", "--tenant", "x"], ["uuid"]),
    (["show", "x"], ["uuid"]),
    (["retry"], ["no dead letters selected"]),
    (["discard", UNKNOWN, "--all"], ["not both"]),
    (["retry", "x"], ["uuid"]),
    (["pause", "--sink", "d", "--topic", "t"], ["not both"]),
    (["tune", "pool", "1s"], ['unknown setting "pool"', 'mean "poll"']),
    (["enqueue", "t", "1"], ['mean "send"']),
    (["pause", "--destination", "x"], ["mean --sink"]),
    (["tune", "destination.x.rate", "1/s"], ['mean "sink.x.rate"']),
    (["list", "dead"], ["did you mean status:dead?"]),
    (["list", "topic"], ["neither a message id", "topic:orders.*"]),
    (["list", "0190d7c4"], ["id:0190d7c4"]),
    (["list", "statsu:dead"], ['no term "statsu"', 'mean "status"']),
    (["list", "status:dead error:~timed out"], ["character 26", "quote a value"]),
    (["list", "--topic", "a", "topic:b"], ["given before"]),
    (["list", "--before", "yesterday"], ["-1h"]),
    (["purge", "now"], ["unexpected argument \"now\": outbox purge\n"]),
    (["send", "t", "-"], ["stdin is empty"]),
    (["status", "--store", "/srv/outbox.db"], ["as a path", "sqlite:PATH"]),
    (["tune", "speed", "1s"], ['unknown setting "speed"', "sink.NAME.rate"]),
    (["tune", "sink.billing.rat", "1/s"], ['mean "sink.billing.rate"']),
    (["tune", "concurency", "1"], ['mean "sink.NAME.concurrency"']),
    (["tune", "sink.b*.rate", "1/s"], ["unknown setting"]),
    (["pause", "--topic", "two words"], ["no spaces"]),
    (["pause", "--topic", "a\\*"], ["no backslash"]),
    (["pause", "--sink", "bil*"], ["no sink is named"]),
    (["retry", "--topic", ""], ["1 to 255"]),
    (["list", "--namespace", "n" * 64], ["1 to 63"]),
    (["tune", "poll", "fast"], ['does not take "fast"', "500ms"]),
    (["tune", "poll", "1s", "--reset"], ["no value"]),
    (["tune", "--reset"], ["name of a setting"]),
    (["configure", "max_attempts", "9", "--reset"], ["no value"]),
    (["configure", "max_attempts", "--reset"], ["--namespace"]),
    (["migrate", "--status", "--print"], ["exclusive"]),
    (["help", "sned"], ["send"]),
    (["status"], ["no store given", "OUTBOX_STORE"]),
    (["list", "--store", "sqlite:x.db", "--schema", "s"], ["SQLite has no schemas"]),
    (["status", "--store", "mysql://x"], ["does not name a store", "sqlite:PATH"]),
    (["status", "--store", "postgresql://u:secret@[::1/x"], ["not a connection string"]),
])
def test_wrong_usage(args, words):
    """Exit 2, nothing on stdout, the mistake and a way out on stderr; no server is asked."""
    done = run_cli(*args, check=False, env=NO_STORE)
    assert (done.returncode, done.stdout) == (2, "")
    for word in words:
        assert word in done.stderr
    assert "secret" not in done.stderr


def test_version():
    """As text and as JSON."""
    version = json.loads(run_cli("version", "--json").stdout)
    assert "postgresql" in version["stores"]
    assert {"null", "stub", "stdout", "file", "exec"} <= set(version["sinks"])
    assert version["compression"] in ([], ["zstd"])
    assert " sinks: %s; compression: %s)\n" % (" ".join(version["sinks"]), "".join(version["compression"]) or "none") \
        in run_cli("version").stdout
    assert run_cli("version").stdout.startswith("outbox " + version["version"])
    assert run_cli("--version").stdout == "outbox %s\n" % version["version"]


# ---- send ------------------------------------------------------------------------------------------------------------


def test_send_everything(box):
    """M6 V12 V15 V16 M3: every option reaches its field."""
    receipt = box.json("send", "orders.paid", '{"n": 12345678901234567890.10}', "--key", "k", "--dedupe-key",
                       TENANT + "/d", "--tenant", TENANT, "--namespace", "shop", "--subject", "order-1", "--recipient",
                       "a@b", "--header", "traceparent=00-1", "--header", "x=a=b", "--priority", "9", "--deliver-after",
                       "2030-01-01T02:00:00+02:00", "--expires-at", "2031-01-01T00:00:00.5Z", "--max-attempts", "3",
                       "--correlation-id", "c")
    assert receipt["created"] is True and receipt["seq"] == 1
    shown = box.cli("show", receipt["id"], "--json").stdout
    assert '{"n": 12345678901234567890.10}' in shown
    message = json.loads(shown)["message"]
    for name, value in {
        "topic": "orders.paid", "key": "k", "seq": 1, "dedupe_key": TENANT + "/d", "tenant_id": TENANT,
        "namespace": "shop", "subject": "order-1", "recipient": "a@b", "headers": {"traceparent": "00-1", "x": "a=b"},
        "priority": 9, "next_attempt_at": "2030-01-01T00:00:00.000000Z", "expires_at": "2031-01-01T00:00:00.500000Z",
        "max_attempts": 3, "correlation_id": "c", "status": "pending", "attempts": 0, "content_type": None,
    }.items():
        assert message[name] == value, name


def test_send_from_stdin_and_file(box, tmp_path):
    """M6: payloads need not fit on a line, and bytes stay bytes."""
    path = tmp_path / "payload"
    path.write_bytes(bytes(range(256)))
    message = box.show(box.send("t", "@%s" % path, "--content-type", "application/x"))["message"]
    assert "payload" not in message and message["content_type"] == "application/x"
    assert base64.b64decode(message["payload_base64"]) == bytes(range(256))
    done = box.cli("send", "t", "-", "--json", stdin='{"from": "stdin"}\n')
    assert box.show(json.loads(done.stdout)["id"])["message"]["payload"] == {"from": "stdin"}


def test_send_twice_is_one_message(box):
    """M4: the same dedupe key gives the same id, and says so."""
    first = box.json("send", "t", "1", "--dedupe-key", "d")
    assert box.json("send", "t", "2", "--dedupe-key", "d") == {**first, "created": False}
    assert "exists already" in box.cli("send", "t", "3", "--dedupe-key", "d").stderr
    assert len(box.list()) == 1


def test_send_relative_time(box):
    """T3: +1h is an hour from now."""
    due = box.show(box.send("t", "1", "--deliver-after", "+1h"))["message"]["next_attempt_at"]
    due = datetime.datetime.strptime(due, "%Y-%m-%dT%H:%M:%S.%fZ")
    assert abs(due - datetime.datetime.utcnow() - datetime.timedelta(hours=1)) < datetime.timedelta(minutes=1)


@pytest.mark.parametrize("args, words", [
    (["", "1"], ["topic"]),
    (["x" * 256, "1"], ["topic", "255"]),
    (["a b", "1"], ["topic"]),
    (["t", "{"], ["payload", "--content-type"]),
    (["t", ""], ["payload"]),
    (["t", '{"a": "\\u0000"}'], ["payload", "\\u0000"]),
    (["t", "1", "--key", "x" * 513], ["key", "512"]),
    (["t", "1", "--key", ""], ["key"]),
    (["t", "1", "--dedupe-key", "x" * 513], ["dedupe_key", "512"]),
    (["t", "1", "--tenant", "x"], ["tenant", "uuid"]),
    (["t", "1", "--tenant", TENANT, "--dedupe-key", "d"], ["dedupe", "does not begin with"]),
    (["t", "1", "--header", "bad name=x"], ["header"]),
    (["t", '"%s"' % ("x" * 100000), "--namespace", "tiny"], ["payload", "max_payload"]),
])
def test_send_bad_input(box, args, words):
    """M5 and bad input: exit 2, a clear error, and nothing is changed."""
    box.worker("configure", "tiny", "max_payload", "1000")
    done = box.cli("send", *args, check=False)
    assert (done.returncode, done.stdout) == (2, "")
    for word in words:
        assert word in done.stderr
    assert box.list() == []


def test_send_bytes_that_are_not_text(box):
    """Invalid UTF-8 is refused by name before it is sent."""
    for args, stdin, words in (([b"t\xff", "1"], b"", b"topic"), (["t", "-"], b'"\xff"', b"payload"),
                               (["t", "-"], b'"\0"', b"payload")):
        done = subprocess.run([CLI, "send", "--store", box.url, *args], input=stdin, stderr=subprocess.PIPE, timeout=60)
        assert done.returncode == 2 and words in done.stderr
    assert box.list() == []


# ---- looking ---------------------------------------------------------------------------------------------------------


def test_list_filters(box):
    """V13 V15: each filter takes what it names and nothing else."""
    dead = box.kill("a", "1", "--key", "k", "--subject", "s")
    other = box.send("b", "2", "--namespace", "shop", "--tenant", TENANT)

    def listed(*args):
        return [row["id"] for row in box.list(*args)]
    assert listed() == [other, dead]
    assert listed("--limit", "1") == [other]
    assert listed("--before", "-1h") == []
    for args in (["--status", "dead"], ["--topic", "a"], ["--namespace", "default"], ["--key", "k"], ["--subject", "s"],
                 ["--code", "http_400"]):
        assert listed(*args) == [dead], args
    for args in (["--status", "pending"], ["--topic", "b"], ["--tenant", TENANT], ["--namespace", "shop"]):
        assert listed(*args) == [other], args
    for args in (["status:dead"], ["topic:a"], ["topic:? namespace:def*"], ["key:k", "age:<1h"], ["code:http_4*"], ["error:~REFUSED"],
                 ["attempts:>0"], ["id:" + dead], [dead], [dead, "status:dead"], ["--topic", "a", "status:dead"]):
        assert listed(*args) == [dead], args
    for args in (["status:pending"], ["tenant:" + TENANT], ["attempts:0"], ["namespace:s*", "topic:b"]):
        assert listed(*args) == [other], args
    for args in (["status:dead", "topic:b"], ["age:>1h"], [other, "status:dead"]):
        assert listed(*args) == [], args
    assert "payload" not in box.list()[0] and box.list("--payload")[0]["payload"] == 2
    table = box.cli("list").stdout.splitlines()
    assert len(table) == 3 and "refused" in table[2] and "key=k" in table[2]


def test_show(box):
    """V13 S7 T3: the message, its attempts in order, and what operators did."""
    id_ = box.send("t", '{"a": [1, {"b": []}], "c": "x{,}"}', "--max-attempts", "2")
    box.settle(2, code="http_503", error="busy")
    first = box.show(id_)
    assert first["message"]["status"] == "pending" and first["message"]["last_error"] == "busy"
    assert [(a["attempt_no"], a["outcome"], a["code"], a["worker"], a["latency_ms"]) for a in first["attempts"]] == [
        (1, "retry", "http_503", "w1", 12)]
    box.settle(3)
    box.cli("retry", id_, "--reason", "mended", "--actor", "ann")
    box.worker("claim")
    second = box.show(id_)
    assert [(a["attempt_no"], a["outcome"]) for a in second["attempts"]] == [(1, "retry"), (2, "failed"), (3, "processing")]
    assert [(a["actor"], a["action"], a["reason"]) for a in second["acts"]] == [("ann", "retry", "mended")]
    assert (second["message"]["status"], second["message"]["redriven"]) == ("processing", True)
    text = box.cli("show", id_).stdout
    assert '  {\n    "a": [\n      1,\n      {\n        "b": []\n      }\n    ],\n    "c": "x{,}"\n  }' in text
    assert re.search(r"2 +failed .*http_400  refused", text) and "ann" in text


def test_show_unknown(box):
    """An id that is not there: exit 1, and what to do."""
    done = box.cli("show", UNKNOWN, check=False)
    assert (done.returncode, done.stdout) == (1, "") and UNKNOWN in done.stderr


def test_status(box):
    """S17 V13: counts by topic, and their sums."""
    assert box.json("status")["topics"] == []
    box.kill("a", "1")
    box.send("a", "2")
    box.send("a", "3", "--deliver-after", "+1h")
    status = box.json("status")
    assert len(status["topics"]) == 1
    row = status["topics"][0]
    assert (row["namespace"], row["topic"], row["pending"], row["due"], row["dead"]) == ("default", "a", 2, 1, 1)
    assert (status["pending"], status["due"], status["dead"], row["paused"]) == (2, 1, 1, False)
    assert "list --status dead" in box.cli("status").stderr


def test_what_the_database_says_is_harmless_to_a_terminal(box):
    """Escape sequences in stored text are shown, not obeyed."""
    id_ = box.kill("t", "1", error="\x1b[31mred\x07\u009b")
    for done in (box.cli("list"), box.cli("show", id_)):
        assert "\x1b" not in done.stdout and "\u009b" not in done.stdout
        assert "\\x1b[31mred\\x07\\x9b" in done.stdout


# ---- operating -------------------------------------------------------------------------------------------------------


def test_retry(box):
    """V13 T4 Y5: by id, with actor and reason on record; a second time there is nothing to retry."""
    id_ = box.kill("t", "1")
    done = box.cli("retry", id_, "--reason", "mended", "--json", env={"OUTBOX_ACTOR": "bob"})
    assert json.loads(done.stdout) == {"action": "retry", "count": 1, "count_capped": False, "dry_run": False, "refused": 0,
                                       "left": 0, "interrupted": False}
    shown = box.show(id_)
    assert (shown["message"]["status"], shown["acts"][0]["actor"], shown["acts"][0]["reason"]) == (
        "pending", "bob", "mended")
    again = box.cli("retry", id_, UNKNOWN, check=False)
    assert again.returncode == 1 and "nothing was done: 1 due (%s" % id_ in again.stderr and "1 unknown (%s" % UNKNOWN in again.stderr


def test_retry_by_filter(box):
    """V13 T4: --dry-run counts, the filter decides, --all means all."""
    ids = [box.kill(topic, "1", code=code) for topic, code in (("a", "c1"), ("a", "c2"), ("b", "c1"))]

    def states():
        return [box.show(id_)["message"]["status"] for id_ in ids]
    assert "Would retry 2 dead letters" in box.cli("retry", "--topic", "a", "--dry-run").stderr
    assert states() == ["dead"] * 3
    assert "1 dead letter pending again" in box.cli("retry", "--topic", "a", "--code", "c2", "--yes").stderr
    assert states() == ["dead", "pending", "dead"]
    assert "2 dead letters pending again" in box.cli("retry", "--all", "--yes").stderr
    assert states() == ["pending"] * 3
    none = box.cli("retry", "--all", check=False)
    assert none.returncode == 1 and "no dead letter matches" in none.stderr


def test_discard_needs_a_yes(box):
    """T4: without a terminal and without --yes nothing happens; by id too."""
    id_ = box.kill("t", "1")
    for args in ([id_], ["--all"], ["--topic", "t"]):
        done = box.cli("discard", *args, check=False, stdin="y\n")
        assert done.returncode == 2 and "--yes" in done.stderr
    assert box.show(id_)["message"]["status"] == "dead"
    assert box.json("discard", id_, "--dry-run")["count"] == 1
    box.cli("discard", id_, "--yes", "--reason", "by hand")
    assert box.show(id_)["acts"][-1]["action"] == "discard"
    assert box.list("--status", "dead") == []


def on_terminal(box, *args, answer=b"", env=None):
    """Runs with a terminal for stdin and stdout; what was on the screen, and the exit status."""
    master, slave = pty.openpty()
    process = subprocess.Popen([CLI, args[0], "--store", box.url, *args[1:]], stdin=slave, stdout=slave, stderr=slave,
                               env={**os.environ, "TERM": "xterm", **(env or {})})
    os.close(slave)
    os.write(master, answer)
    screen = b""
    while True:
        try:
            more = os.read(master, 65536)
        except OSError:
            break
        if not more:
            break
        screen += more
    os.close(master)
    return screen.decode(), process.wait(60)


def test_discard_asks(box):
    """T4: on a terminal it asks; only a yes is a yes."""
    id_ = box.kill("t", "1")
    screen, status = on_terminal(box, "discard", id_, answer=b"n\n")
    assert "Discard 1 message? [y/N]" in screen and "Nothing was changed" in screen and status != 0
    assert box.show(id_)["message"]["status"] == "dead"
    screen, status = on_terminal(box, "discard", id_, answer=b"y\n")
    assert status == 0 and "1 message discarded" in screen


def test_colour(box):
    """Only on a terminal, and not against NO_COLOR."""
    box.kill("t", "1")
    assert "\x1b[31m" in on_terminal(box, "list", env={"NO_COLOR": ""})[0]
    assert "\x1b" not in on_terminal(box, "list", env={"NO_COLOR": "1"})[0]
    assert "\x1b" not in box.cli("list").stdout


def test_pause_and_resume(box):
    """V13: a paused topic is not claimed, and enqueues gather (V17); both acts are on record (T4)."""
    box.send("a", "1")
    other = box.send("b", "2")
    box.cli("pause", "--topic", "a", "--reason", "moving", "--actor", "ann")
    assert [row["paused"] for row in box.json("status")["topics"]] == [True, False]
    assert box.worker("claim") == [other]
    box.send("a", "3")
    assert box.worker("claim") == []
    assert box.json("resume", "--topic", "a", "--actor", "bob") == {
        "action": "resume", "namespace": "default", "topic": "a", "sink": None, "changed": True}
    assert len(box.worker("claim")) == 2
    assert box.worker("acts") == ["pause ann moving", "resume bob -"]


def test_pauses_are_told(box):
    """V13 N6: what is paused is seen, and a resume does not pretend to undo a pause that it did not find."""
    box.send("a", "1")
    assert box.json("status")["pauses"] == []
    assert "PAUSED" not in box.cli("status").stdout
    box.cli("pause", "--topic", "a")
    box.cli("pause", "--sink", "billing", "--force")
    assert {(row["namespace"], row["topic"], row["sink"]) for row in box.json("status")["pauses"]} == {
        ("default", "a", None), (None, None, "billing")}
    both = ("default/a, sink billing", "sink billing, default/a")
    told = box.cli("status").stdout
    assert "  default/a by " in told and "  sink billing by " in told and "outbox resume" in told
    none = box.cli("resume", check=False)
    assert none.returncode == 1 and "everything is not paused" in none.stderr and none.stderr.rstrip().endswith(both)
    told = box.cli("resume", "--topic", "a").stderr
    assert "Resumed: default/a." in told and "Still paused: sink billing." in told
    assert "Still" not in box.cli("resume", "--sink", "billing").stderr


def test_pause_everything_needs_a_yes(box):
    """V13."""
    assert box.cli("pause", check=False).returncode == 2
    box.cli("pause", "--yes")
    box.send("a", "1")
    assert box.worker("claim") == []
    box.cli("resume")
    assert len(box.worker("claim")) == 1


def test_tune(box):
    """T5: settings of the relays are changed while they run, on record, and taken back."""
    assert box.json("tune", "poll", "2S", "--actor", "ann", "--reason", "calm") == {"name": "poll", "value": "2s"}
    assert box.cli("tune", "sink.billing.rate", "20", "--force").stdout == "sink.billing.rate = 20/s\n"
    assert sorted(box.cli("tune").stdout.splitlines()) == ["poll = 2s", "sink.billing.rate = 20/s"]
    assert box.cli("tune", "poll").stdout == "poll = 2s\n"
    assert box.cli("tune", "poll", "--reset", "--actor", "bob").stdout == "poll = as configured\n"
    assert box.cli("tune", "poll").stdout == ""
    assert box.worker("acts")[0] == "tune ann calm" and box.worker("acts")[2] == "tune bob -"


def test_configure(box):
    """V9 V13: settings of namespaces are shown and changed, on record; what there is not is refused with the nearest."""
    shown = dict(line.split(" = ") for line in box.cli("configure").stdout.splitlines())
    assert [shown["* " + name] for name in ("max_attempts", "retry_base", "retry_cap", "tenant_prefix", "retention")] \
        == ["15", "1s", "30m", "on", "7d"]
    assert box.json("configure", "max_attempts", "30", "--namespace", "pay", "--actor", "ann", "--reason", "slow") \
        == {"namespace": "pay", "name": "max_attempts", "value": "30"}
    assert box.cli("configure", "retry_cap", "2h").stdout == "* retry_cap = 2h\n"
    assert box.cli("configure", "max_attempts", "--namespace", "pay").stdout == "* max_attempts = 15\npay max_attempts = 30\n"
    assert [json.loads(line) for line in box.cli("configure", "retry_cap", "--json").stdout.splitlines()] \
        == [{"namespace": "*", "name": "retry_cap", "value": "2h"}]
    send = box.json("send", "t", "1", "--namespace", "pay")
    assert box.json("show", send["id"])["message"]["max_attempts"] == 30
    box.cli("configure", "max_attempts", "--namespace", "pay", "--reset", "--actor", "bob")
    assert box.cli("configure", "max_attempts").stdout == "* max_attempts = 15\n"
    acts = box.worker("acts")
    assert acts[0] == "configure ann slow" and acts[-1] == "configure bob -"
    for args, words in [(("max_atempts", "3"), 'did you mean "max_attempts"'), (("max_attempts", "many"), "1 to 1000"),
                        (("retention", "1d", "--namespace", "pay"), "all namespaces"),
                        (("on_dead", "hold", "--namespace", "pay*"), 'no "*"')]:
        done = box.cli("configure", *args, check=False)
        assert done.returncode == 2 and words in done.stderr.replace(" and ", " "), (args, done)
    assert box.cli("configure", "max_attempts").stdout == "* max_attempts = 15\n"


def test_purge(box):
    """S1: what is younger than the retention time stays, and so do undelivered and dead messages."""
    box.send("t", "1")
    box.settle(1)
    dead = box.kill("t", "2")
    assert box.json("purge") == {"action": "purge", "count": 0}
    assert len(box.list()) == 2 and box.show(dead)["message"]["status"] == "dead"


# ---- when things are not as they should be ---------------------------------------------------------------------------


def test_not_migrated(empty_db):
    """Exit 78, and what to run."""
    for args in (["send", "t", "1"], ["status"], ["list"], ["purge"]):
        done = empty_db.cli(*args, check=False)
        assert done.returncode == 78 and "run: outbox migrate" in done.stderr
    done = empty_db.cli("status", "--schema", "other", check=False)
    assert "outbox migrate --schema other" in done.stderr


def test_unreachable():
    """Exit 69; the password is in none of the forms."""
    for url in ("postgresql://u:s3cret@127.0.0.1:1/x", "postgresql://u@127.0.0.1:1/x?password=s3cret",
                "host=127.0.0.1 port=1 password='s3cret'"):
        for json_ in ([], ["--json"]):
            done = run_cli("status", "--store", url, *json_, check=False)
            assert (done.returncode, done.stdout) == (69, "")
            assert "s3cret" not in done.stderr and "cannot connect" in done.stderr
    assert json.loads(done.stderr.splitlines()[-1])["error"]["code"] == "UNREACHABLE"


def test_forbidden_names_the_grant(db, pg_server):
    """S5: each verb says which role to grant; after that grant it works."""
    user = "u_" + uuid.uuid4().hex[:8]
    pg_server.psql("CREATE ROLE %s LOGIN" % user)
    dead = Box(db.url()).kill("t", "1")
    try:
        for args, role in ((["send", "t", "1"], "producer"), (["list"], "auditor"), (["retry", dead], "operator")):
            done = run_cli(args[0], "--store", db.url(user), *args[1:], check=False)
            assert done.returncode == 77
            statement = re.search(r"administrator can run: (.*)", done.stderr).group(1)
            assert statement == 'GRANT "outbox_%s" TO "%s"' % (role, user)
            pg_server.psql(statement)
            run_cli(args[0], "--store", db.url(user), *args[1:])
    finally:
        pg_server.psql("DROP ROLE %s" % user)


def test_row_security_off_is_no_missing_right(db, pg_server):
    """S5: a role that may do all it wants is told of its setting, not to ask for a grant that it has."""
    user = "u_" + uuid.uuid4().hex[:8]
    pg_server.psql("CREATE ROLE %s LOGIN; GRANT outbox_auditor, outbox_producer, outbox_operator TO %s" % (user, user))
    box = Box(db.url())
    box.kill("t", "1")
    try:
        for args in (["list"], ["send", "t", "1"], ["status"], ["retry", "--all", "--yes"]):
            done = run_cli(args[0], "--store", db.url(user), *args[1:], check=False, env={"PGOPTIONS": "-c row_security=off"})
            assert done.returncode == 0 or ("row_security is off" in done.stderr and "GRANT" not in done.stderr), done
        with db.connect(user=user) as conn, pytest.raises(Exception, match="row-level security"):
            conn.execute("set row_security = off")
            conn.execute("select * from outbox.messages")
    finally:
        pg_server.psql("DROP ROLE %s" % user)


def test_store_from_the_environment(db):
    """OUTBOX_STORE comes before DATABASE_URL, and --store before both."""
    right, wrong = db.url(), "postgresql://127.0.0.1:1/x"
    for env in ({"OUTBOX_STORE": right, "DATABASE_URL": wrong}, {"OUTBOX_STORE": "", "DATABASE_URL": right}):
        assert run_cli("status", env=env).returncode == 0
    assert run_cli("status", "--store", right, env={"OUTBOX_STORE": wrong}).returncode == 0
    assert run_cli("status", env={"OUTBOX_STORE": wrong, "DATABASE_URL": right}, check=False).returncode == 69


def test_output_that_goes_nowhere(box):
    """A full disk behind stdout is a failure."""
    box.send("t", "1")
    with open("/dev/full", "w") as full:
        done = subprocess.run([CLI, "list", "--store", box.url], stdout=full, stderr=subprocess.PIPE, timeout=60)
    assert done.returncode != 0 and b"No space left" in done.stderr


def test_what_others_call_a_sink(box):
    """T5: the word that other programs use leads to ours."""
    for args, meant in [(("pause", "--destination", "a"), "--sink"), (("resume", "--destination=a"), "--sink"),
                        (("tune", "destination.a.rate", "3/s"), '"sink.a.rate"')]:
        done = box.cli(*args, check=False)
        assert done.returncode == 2 and "did you mean " + meant in done.stderr, done.stderr
