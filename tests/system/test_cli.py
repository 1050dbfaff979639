"""The command line: what a person types first, and what a script relies on.

Proves: V13 (operators see, list, inspect, requeue), T4 (acts on record), and the exit codes and forms of output that
scripts are promised.
"""
import json
import os
import pty
import re
import subprocess
import uuid

import pytest

from support.database import CLI, run_cli

COMMANDS = ["init", "migrate", "send", "status", "list", "show", "retry", "discard", "pause", "resume", "purge",
            "version", "help"]
TENANT = "0a0a0a0a-1111-4222-8333-444444444444"
UNKNOWN = "01900000-0000-7000-8000-000000000000"
NO_STORE = {"OUTBOX_STORE": "", "DATABASE_URL": ""}


def messages(db):
    return db.sql("select count(*) from outbox.messages")[0][0]


def show(db, id_):
    return json.loads(db.cli("show", id_, "--json").stdout)


def send(db, *args):
    return json.loads(db.cli("send", *args, "--json").stdout)["id"]


def claim(db):
    """Takes everything that is due: [(id, token)]."""
    return db.sql("select id, token from outbox.claim('w1')")


def settle(db, outcome, code="http_400", error="refused"):
    claimed = claim(db)
    db.sql("select * from outbox.settle(%s, %s, %s, %s, %s)", [id_ for id_, _ in claimed], [t for _, t in claimed],
           [outcome] * len(claimed), [code] * len(claimed), [error] * len(claimed))
    return [str(id_) for id_, _ in claimed]


def kill(db, *args, **how):
    """A dead letter."""
    id_ = send(db, *args)
    assert settle(db, 3, **how) == [id_]
    return id_


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
    (["sned"], ['no command "sned"', 'mean "send"']),
    (["qqqqqq"], ['no command "qqqqqq"']),
    (["send", "t"], ["missing", "TOPIC PAYLOAD"]),
    (["send", "t", "1", "2"], ['"2" is one argument too many']),
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
    (["retry"], ["which dead letters"]),
    (["discard", UNKNOWN, "--all"], ["not both"]),
    (["retry", "x"], ["uuid"]),
    (["pause", "--destination", "d", "--topic", "t"], ["not both"]),
    (["migrate", "--status", "--print"], ["exclude"]),
    (["help", "sned"], ["send"]),
    (["status"], ["no store is given", "OUTBOX_STORE"]),
    (["list", "--store", "sqlite:x.db", "--schema", "s"], ["SQLite has no schemas"]),
    (["status", "--store", "mysql://x"], ["names no store", "sqlite:PATH"]),
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
    assert run_cli("version").stdout.startswith("outbox " + version["version"])
    assert run_cli("--version").stdout == "outbox %s\n" % version["version"]


# ---- send ------------------------------------------------------------------------------------------------------------


def test_send_everything(db):
    """M6 V12 V15 V16 M3: every option reaches its field."""
    done = db.cli("send", "orders.paid", '{"n": 12345678901234567890.10}', "--json", "--key", "k", "--dedupe-key",
                  TENANT + "/d", "--tenant", TENANT, "--namespace", "shop", "--subject", "order-1", "--recipient", "a@b",
                  "--header", "traceparent=00-1", "--header", "x=a=b", "--priority", "9", "--deliver-after",
                  "2030-01-01T02:00:00+02:00", "--expires-at", "2031-01-01T00:00:00.5Z", "--max-attempts", "3",
                  "--correlation-id", "c")
    receipt = json.loads(done.stdout)
    assert receipt["created"] is True and receipt["seq"] == 1
    row = db.sql("select topic, payload::text, key, dedupe_key, tenant_id::text, namespace, subject, recipient, headers, "
                 "priority, next_attempt_at at time zone 'UTC', expires_at at time zone 'UTC', max_attempts, "
                 "correlation_id, status from outbox.messages where id = %s", receipt["id"])[0]
    assert [str(value) if i in (10, 11) else value for i, value in enumerate(row)] == [
        "orders.paid", '{"n": 12345678901234567890.10}', "k", TENANT + "/d", TENANT, "shop", "order-1", "a@b",
        {"traceparent": "00-1", "x": "a=b"}, 9, "2030-01-01 00:00:00", "2031-01-01 00:00:00.500000", 3, "c", "pending"]


def test_send_from_stdin_and_file(db, tmp_path):
    """N1 M6: payloads need not fit on a line, and bytes stay bytes."""
    path = tmp_path / "payload"
    path.write_bytes(bytes(range(256)))
    id_ = send(db, "t", "@%s" % path, "--content-type", "application/x")
    assert db.sql("select body, content_type from outbox.messages where id = %s", id_) == [(bytes(range(256)),
                                                                                          "application/x")]
    done = db.cli("send", "t", "-", "--json", stdin='{"from": "stdin"}\n')
    assert show(db, json.loads(done.stdout)["id"])["message"]["payload"] == {"from": "stdin"}
    shown = show(db, id_)["message"]
    assert "payload" not in shown and shown["payload_base64"].startswith("AAECAwQF")


def test_send_twice_is_one_message(db):
    """M4: the same dedupe key gives the same id, and says so."""
    first = json.loads(db.cli("send", "t", "1", "--dedupe-key", "d", "--json").stdout)
    second = json.loads(db.cli("send", "t", "2", "--dedupe-key", "d", "--json").stdout)
    assert second == {**first, "created": False}
    assert "was there already" in db.cli("send", "t", "3", "--dedupe-key", "d").stderr
    assert messages(db) == 1


def test_send_relative_time(db):
    """T3: +1h is an hour from now."""
    id_ = send(db, "t", "1", "--deliver-after", "+1h")
    assert db.sql("select next_attempt_at between now() + '59 min' and now() + '61 min' from outbox.messages "
                  "where id = %s", id_) == [(True,)]


@pytest.mark.parametrize("args, status, words", [
    (["", "1"], 2, ["topic"]),
    (["x" * 256, "1"], 2, ["topic", "255"]),
    (["a b", "1"], 2, ["topic"]),
    (["t", "{"], 2, ["payload", "json", "--content-type"]),
    (["t", ""], 2, ["payload"]),
    (["t", '{"a": "\\u0000"}'], 2, ["payload", "\\u0000"]),
    (["t", "1", "--key", "x" * 513], 2, ["key", "512"]),
    (["t", "1", "--key", ""], 2, ["key"]),
    (["t", "1", "--dedupe-key", "x" * 513], 2, ["dedupe_key", "512"]),
    (["t", "1", "--tenant", "x"], 2, ["tenant_id", "uuid"]),
    (["t", "1", "--tenant", TENANT, "--dedupe-key", "d"], 2, ["dedupe key", TENANT]),
    (["t", "1", "--header", "bad name=x"], 2, ["header name"]),
    (["t", '"%s"' % ("x" * 100000), "--namespace", "tiny"], 2, ["payload has", "bytes"]),
])
def test_send_bad_input(db, args, status, words):
    """M5 and bad input: a clear error, and nothing is changed."""
    db.sql("select outbox.configure('tiny', 'max_payload', '1000')")
    done = db.cli("send", *args, check=False)
    assert (done.returncode, done.stdout) == (status, "")
    for word in words:
        assert word in done.stderr
    assert messages(db) == 0


def test_send_bytes_that_are_not_text(db):
    """Invalid UTF-8 is refused by name before it is sent."""
    for args, stdin, words in (([b"t\xff", "1"], b"", b"topic is not valid UTF-8"),
                               (["t", "-"], b'"\xff"', b"payload is JSON but not valid UTF-8"),
                               (["t", "-"], b'"\0"', b"NUL")):
        done = subprocess.run([CLI, "send", "--store", db.url(), *args], input=stdin, stderr=subprocess.PIPE, timeout=60)
        assert done.returncode == 2 and words in done.stderr
    assert messages(db) == 0


# ---- looking ---------------------------------------------------------------------------------------------------------


def test_list_filters(db):
    """V13 V15: each filter takes what it names and nothing else."""
    ids = {}
    ids["dead"] = kill(db, "a", "1", "--key", "k", "--subject", "s")
    ids["other"] = send(db, "b", "2", "--namespace", "shop", "--tenant", TENANT)

    def listed(*args):
        return [json.loads(line)["id"] for line in db.cli("list", "--json", *args).stdout.splitlines()]
    assert listed() == [ids["other"], ids["dead"]]
    assert listed("--limit", "1") == [ids["other"]]
    assert listed("--before", "-1h") == []
    for args in (["--status", "dead"], ["--topic", "a"], ["--namespace", "default"], ["--key", "k"], ["--subject", "s"],
                 ["--code", "http_400"]):
        assert listed(*args) == [ids["dead"]], args
    for args in (["--status", "pending"], ["--topic", "b"], ["--tenant", TENANT], ["--namespace", "shop"]):
        assert listed(*args) == [ids["other"]], args
    table = db.cli("list").stdout.splitlines()
    assert len(table) == 3 and "refused" in table[2] and "key=k" in table[2]


def test_show(db):
    """V13 S7 T3: the message, its attempts in order, and what operators did."""
    id_ = send(db, "t", '{"a": [1, {"b": []}], "c": "x{,}"}', "--max-attempts", "2")
    settle(db, 2, code="http_503", error="busy")
    first = show(db, id_)
    assert first["message"]["status"] == "pending" and first["message"]["last_error"] == "busy"
    assert [(a["attempt"], a["outcome"], a["code"]) for a in first["attempts"]] == [(1, "retry", "http_503")]
    db.sql("update outbox.queue set due = now()")
    settle(db, 3)
    db.cli("retry", id_, "--reason", "mended", "--actor", "ann")
    claim(db)
    second = show(db, id_)
    assert [(a["attempt"], a["outcome"]) for a in second["attempts"]] == [(1, "retry"), (2, "failed"), (3, "processing")]
    assert [(a["actor"], a["action"], a["reason"]) for a in second["acts"]] == [("ann", "retry", "mended")]
    assert (second["message"]["status"], second["message"]["redriven"]) == ("processing", True)
    text = db.cli("show", id_).stdout
    assert '  {\n    "a": [\n      1,\n      {\n        "b": []\n      }\n    ],\n    "c": "x{,}"\n  }' in text
    assert re.search(r"2 +failed .*http_400  refused", text) and "ann" in text


def test_show_unknown(db):
    """An id that is not there: exit 1, and what to do."""
    done = db.cli("show", UNKNOWN, check=False)
    assert (done.returncode, done.stdout) == (1, "") and UNKNOWN in done.stderr


def test_status(db):
    """S17 V13: counts by topic, and their sums."""
    assert json.loads(db.cli("status", "--json").stdout)["topics"] == []
    kill(db, "a", "1")
    send(db, "a", "2")
    send(db, "a", "3", "--deliver-after", "+1h")
    status = json.loads(db.cli("status", "--json").stdout)
    assert len(status["topics"]) == 1
    row = status["topics"][0]
    assert (row["namespace"], row["topic"], row["pending"], row["due"], row["dead"]) == ("default", "a", 2, 1, 1)
    assert (status["pending"], status["due"], status["dead"], row["paused"]) == (2, 1, 1, False)
    assert "list --status dead" in db.cli("status").stderr


def test_what_the_database_says_is_harmless_to_a_terminal(db):
    """Escape sequences in stored text are shown, not obeyed."""
    id_ = kill(db, "t", "1", error="\x1b[31mred\x07\u009b")
    for done in (db.cli("list"), db.cli("show", id_)):
        assert "\x1b" not in done.stdout and "\u009b" not in done.stdout
        assert "\\x1b[31mred\\x07\\x9b" in done.stdout


# ---- operating -------------------------------------------------------------------------------------------------------


def test_retry(db):
    """V13 T4 Y5: by id, with actor and reason on record; a second time there is nothing to retry."""
    id_ = kill(db, "t", "1")
    done = db.cli("retry", id_, "--reason", "mended", "--json", env={"OUTBOX_ACTOR": "bob"})
    assert json.loads(done.stdout) == {"action": "retry", "count": 1, "count_capped": False, "dry_run": False}
    shown = show(db, id_)
    assert (shown["message"]["status"], shown["acts"][0]["actor"], shown["acts"][0]["reason"]) == (
        "pending", "bob", "mended")
    again = db.cli("retry", id_, UNKNOWN, check=False)
    assert again.returncode == 1 and "none of these is a dead letter" in again.stderr


def test_retry_by_filter(db):
    """V13 T4: --dry-run counts, the filter decides, --all means all."""
    db.sql("select outbox.configure('*', 'retry_base', '1 s')")
    ids = [kill(db, topic, "1", code=code) for topic, code in (("a", "c1"), ("a", "c2"), ("b", "c1"))]
    assert "Would retry 2 dead letters" in db.cli("retry", "--topic", "a", "--dry-run").stderr
    assert [show(db, id_)["message"]["status"] for id_ in ids] == ["dead"] * 3
    db.cli("retry", "--topic", "a", "--code", "c2", "--yes")
    assert [show(db, id_)["message"]["status"] for id_ in ids] == ["dead", "pending", "dead"]
    assert "2 dead letters on their way again" in db.cli("retry", "--all", "--yes").stderr
    assert "0 dead letters" in db.cli("retry", "--all").stderr


def test_discard_needs_a_yes(db):
    """T4: without a terminal and without --yes nothing happens; by id too."""
    id_ = kill(db, "t", "1")
    for args in ([id_], ["--all"], ["--topic", "t"]):
        done = db.cli("discard", *args, check=False, stdin="y\n")
        assert done.returncode == 2 and "--yes" in done.stderr
    assert show(db, id_)["message"]["status"] == "dead"
    assert json.loads(db.cli("discard", id_, "--dry-run", "--json").stdout)["count"] == 1
    db.cli("discard", id_, "--yes", "--reason", "by hand")
    assert show(db, id_)["acts"][-1]["action"] == "discard"
    assert db.cli("list", "--status", "dead", "--json").stdout == ""


def on_terminal(db, *args, answer=b"", env=None):
    """Runs with a terminal for stdin and stdout; what was on the screen, and the exit status."""
    master, slave = pty.openpty()
    process = subprocess.Popen([CLI, args[0], "--store", db.url(), *args[1:]], stdin=slave, stdout=slave, stderr=slave,
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


def test_discard_asks(db):
    """T4: on a terminal it asks; only a yes is a yes."""
    id_ = kill(db, "t", "1")
    screen, _ = on_terminal(db, "discard", id_, answer=b"n\n")
    assert "Discard 1 dead letter? [y/N]" in screen and "Nothing was changed" in screen
    assert show(db, id_)["message"]["status"] == "dead"
    screen, status = on_terminal(db, "discard", id_, answer=b"y\n")
    assert status == 0 and "1 dead letter discarded" in screen


def test_colour(db):
    """Only on a terminal, and not against NO_COLOR."""
    kill(db, "t", "1")
    assert "\x1b[31m" in on_terminal(db, "list", env={"NO_COLOR": ""})[0]
    assert "\x1b" not in on_terminal(db, "list", env={"NO_COLOR": "1"})[0]
    assert "\x1b" not in db.cli("list").stdout


def test_pause_and_resume(db):
    """V13: a paused topic is not claimed, and enqueues gather (V17); both acts are on record (T4)."""
    send(db, "a", "1")
    send(db, "b", "2")
    db.cli("pause", "--topic", "a", "--reason", "moving", "--actor", "ann")
    assert [row["paused"] for row in json.loads(db.cli("status", "--json").stdout)["topics"]] == [True, False]
    assert len(claim(db)) == 1
    send(db, "a", "3")
    assert claim(db) == []
    done = db.cli("resume", "--topic", "a", "--json")
    assert json.loads(done.stdout) == {"action": "resume", "namespace": "default", "topic": "a", "destination": None}
    assert len(claim(db)) == 2
    assert [row[0] for row in db.sql("select action from outbox.acts order by id")] == ["pause", "resume"]


def test_pause_everything_needs_a_yes(db):
    """V13."""
    assert db.cli("pause", check=False).returncode == 2
    db.cli("pause", "--yes")
    send(db, "a", "1")
    assert claim(db) == []
    db.cli("resume")
    assert len(claim(db)) == 1


def test_purge(db):
    """S1: delivered messages past the retention time go; younger ones, undelivered and dead ones stay."""
    send(db, "t", "1")
    settle(db, 1)
    dead = kill(db, "t", "2")
    assert json.loads(db.cli("purge", "--json").stdout) == {"action": "purge", "removed": 0}
    assert messages(db) == 2 and show(db, dead)["message"]["status"] == "dead"


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
    assert json.loads(done.stderr)["error"]["code"] == "UNREACHABLE"


def test_forbidden_names_the_grant(db, pg_server):
    """S5: each verb says which role to grant; after that grant it works."""
    user = "u_" + uuid.uuid4().hex[:8]
    pg_server.psql("CREATE ROLE %s LOGIN" % user)
    dead = kill(db, "t", "1")
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


def test_store_from_the_environment(db):
    """OUTBOX_STORE comes before DATABASE_URL, and --store before both."""
    right, wrong = db.url(), "postgresql://127.0.0.1:1/x"
    for env in ({"OUTBOX_STORE": right, "DATABASE_URL": wrong}, {"OUTBOX_STORE": "", "DATABASE_URL": right}):
        assert run_cli("status", env=env).returncode == 0
    assert run_cli("status", "--store", right, env={"OUTBOX_STORE": wrong}).returncode == 0
    assert run_cli("status", env={"OUTBOX_STORE": wrong, "DATABASE_URL": right}, check=False).returncode == 69


def test_output_that_goes_nowhere(db):
    """A full disk behind stdout is a failure."""
    send(db, "t", "1")
    with open("/dev/full", "w") as full:
        done = subprocess.run([CLI, "list", "--store", db.url()], stdout=full, stderr=subprocess.PIPE, timeout=60)
    assert done.returncode != 0 and b"No space left" in done.stderr
