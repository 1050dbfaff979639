"""The JSON of --json is a promise: every command, in many states of both stores, prints what docs/json says, and nothing else.

Proves: V13 (operators see), T4 (acts on record): what scripts read. The schemas come from def/json.def; here no field may
stand in a document that they do not name, and no field in them that no document had.
"""
import json
import os
import re
import sqlite3
import time

import pytest

from support.box import STORES, Box
from support.database import ROOT, create_database, drop_database, run_cli

TENANT = "0a0a0a0a-1111-4222-8333-444444444444"
UNKNOWN = "01900000-0000-7000-8000-000000000000"
NO_STORE = {"OUTBOX_STORE": "", "DATABASE_URL": ""}
FOLDER = os.path.join(ROOT, "docs", "json")
NAMES = sorted(name.replace(".schema.json", "") for name in os.listdir(FOLDER))
RETRY, FAILED, LIMITED, BLOCKED, UNCLEAR, RELEASED, INTERRUPTED = "2", "3", "5", "6", "7", "8", "9"
FRAME = bytes.fromhex("28b52ffd200f790000226465617220637573746f6d657222")  # "dear customer" in zstd
# Words that take more than this to be printed; tests of the doctor and of configurations have them.
ELSEWHERE = {"/findings/*/what as rights", "/findings/*/what as retention", "/findings/*/what as log", "/findings/*/what as relay",
             "/findings/*/what as dead", "/problems/*/source as default", "/used_at",
             "/answers/*/command as null"}  # test_night.py: due, and nothing in its way
MANY = {"list", "errors", "tail", "tune", "configure", "token_list"}  # commands that print a document a line
WITHOUT = {"run", "dev", "help"}  # commands that print none


def schema_of(name):
    with open(os.path.join(FOLDER, name + ".schema.json")) as file:
        return json.load(file)


def strict(schema):
    """The same, where a field that is not named is a fault: readers ignore such, we do not print any."""
    if isinstance(schema, list):
        return [strict(item) for item in schema]
    if not isinstance(schema, dict):
        return schema
    schema = {key: strict(value) for key, value in schema.items()}
    return {"additionalProperties": False, **schema} if "properties" in schema else schema


class Witness:
    """Runs commands with --json, holds what they print against the schemas, and remembers what it saw of each."""

    def __init__(self, folder):
        self.folder = folder
        self.faults = []
        self.documents = {}  # name: [(the command, the text)]
        self.seen = {}  # name: {path of a field: set of the values, null or other}

    def keep(self, name, text, where):
        try:
            self.look(self.seen.setdefault(name, {}), "", json.loads(text))
            self.documents.setdefault(name, []).append((where, text))
        except ValueError:
            self.faults.append("%s: no JSON: %s" % (where, text))

    def judge(self):
        """All documents of a name at once, again without the one that does not fit."""
        for name, documents in self.documents.items():
            schema = strict(schema_of(name))
            parts = schema.pop("$defs", {})
            (self.folder / name).write_text(json.dumps({"items": schema, "$defs": parts}))
            while documents:
                text = "[%s]" % ",".join(text for _, text in documents)
                done = run_cli("validate", "--json-schema", self.folder / name, "-", "--json", stdin=text, env=NO_STORE,
                               check=False)
                problems = json.loads(done.stdout)["problems"]
                if not problems:
                    break
                where, text = documents.pop(int(problems[0]["path"].split("/")[1]))
                self.faults.append("%s: %s: %s" % (where, problems[0]["text"], text))
        return self.faults

    def look(self, seen, path, value):
        seen.setdefault(path, set()).add(json.dumps(value) if isinstance(value, (str, bool, type(None))) else "...")
        if isinstance(value, dict):
            for key, item in value.items():
                self.look(seen, path + "/" + key, item)
        elif isinstance(value, list):
            for item in value:
                self.look(seen, path + "/*", item)

    def run(self, name, *words, status=0, env=None, stdin=None):
        """Runs a command; its documents are of this name, or "error" when it fails. Returns what it printed."""
        where = " ".join(words)
        done = run_cli(*words, "--json", check=False, env={**NO_STORE, **(env or {})}, stdin=stdin)
        if done.returncode != status:
            self.faults.append("%s: exit %d, not %d: %s%s" % (where, done.returncode, status, done.stdout, done.stderr))
        told = done.stderr.splitlines()
        if name == "error":
            self.keep("error", told.pop() if told else "null", where)
            if done.stdout:
                self.faults.append("%s: failed, and printed %s" % (where, done.stdout))
        for line in told if words[:1] != ("run",) else []:  # the log of a relay is its own
            self.keep("note", line, where)
        if name == "error":
            return None
        documents = done.stdout.splitlines()
        for text in documents:
            self.keep(name, text, where)
        if name not in MANY and len(documents) != 1:
            self.faults.append("%s: %d documents, not one" % (where, len(documents)))
        return [json.loads(text) for text in documents]


# ---- a life of an outbox ----------------------------------------------------------------------------------------------


def send(witness, box):
    every = ["--key", "k", "--dedupe-key", TENANT + "/d", "--tenant", TENANT, "--namespace", "shop", "--subject", "42",
             "--recipient", "ann", "--header", "a=b", "--priority", "9", "--max-attempts", "3", "--correlation-id", "c",
             "--deliver-after", "-1s", "--expires-at", "+1h", "--store", box.url]
    for _ in range(2):
        witness.run("send", "send", "full", '{"a": [1, null]}', *every)
    witness.run("send", "send", "plain", "null", "--store", box.url)
    witness.run("send", "send", "bytes", "-", "--content-type", "text/plain", "--store", box.url, stdin="hello")
    witness.run("error", "send", "t", "no json", "--store", box.url, status=2)
    witness.run("error", "send", "two words", "1", "--store", box.url, status=2)


AT = "2030-01-31T08:00:00.000000Z"
SINK = {"name": "out", "kind": "http", "breaker": "open", "cause": "down", "since": AT, "next_probe": AT, "code": "x", "error": "y", "error_at": AT,
        "success_at": AT, "failed": 1, "in_flight": 1, "rate": 2.5, "concurrency": 3, "rate_limit": "1/1s", "limited_until": AT, "paused": False}
RELAY = json.dumps({"enabled": True, "digest": "0123456789abcdef", "sinks": [
    SINK, {"name": "out", "breaker": "closed"}, {"name": "out", "breaker": "half_open"}]})


def look(witness, box):
    """What there is to see of every message."""
    witness.run("status", "status", "--store", box.url)
    witness.run("top", "top", "--store", box.url)
    witness.run("list", "list", "--store", box.url)
    witness.run("errors", "errors", "--store", box.url)
    for row in witness.run("list", "list", "--payload", "--store", box.url):
        witness.run("show", "show", row["id"], "--store", box.url)
        witness.run("explain", "explain", row["id"], "--store", box.url)


def live(witness, box, raw):
    """Through all states: waiting, held, retrying, put off, dead, given up, delivered, removed."""
    on = ["--store", box.url]
    look(witness, box)  # empty
    send(witness, box)
    look(witness, box)
    for outcome in (RETRY, LIMITED, BLOCKED, UNCLEAR, RELEASED, INTERRUPTED):
        box.settle(outcome, code="http_503", error="not now")
    box.worker("settle", RETRY, "", "")
    witness.run("errors", "errors", *on)
    box.worker("settle", "1", "", "")
    box.send("spent", "1", "--max-attempts", "1")
    box.send("late", "1", "--expires-at", "-1s")
    box.settle(RETRY)
    dead = [box.kill("t", str(i)) for i in range(4)]
    witness.run("send", "send", "behind", "1", "--key", "k", *on)
    witness.run("send", "send", "behind", "2", "--key", "k", *on)
    box.worker("claim")
    raw("damaged")
    raw("limited")  # a sink's limit of attempts holds
    look(witness, box)
    raw("stuck")  # the lease is over, and another worker takes it: lost
    witness.run("status", "status", *on)
    box.worker("claim")
    look(witness, box)
    for verb in ("retry", "discard"):
        witness.run(verb, verb, "--topic", "t", "--dry-run", *on)
    witness.run("retry", "retry", dead[0], UNKNOWN, "--reason", "again", *on)
    witness.run("discard", "discard", dead[1], "--yes", "--reason", "never mind", *on)
    witness.run("retry", "retry", "--topic", "t", "--yes", "--limit", "1", *on)
    witness.run("error", "retry", dead[1], *on, status=1)
    for verb in ("skip", "redeliver", "expire"):
        witness.run(verb, verb, "--all", "--dry-run", *on)
    witness.run("redeliver", "redeliver", dead[1], *on)
    witness.run("skip", "skip", box.send("t", "1"), *on)
    witness.run("move", "move", box.send("t", "1"), "--to", "elsewhere", "--force", *on)
    witness.run("error", "discard", "--all", *on, status=2)  # nobody to ask
    look(witness, box)
    raw("relay")
    for words in (["pause", "--sink", "quiet", "--force"], ["tune", "enabled", "on"], ["tune", "poll", "1s", "--reason", "why"]):
        box.cli(*words)
    witness.run("status", "status", *on)
    witness.run("top", "top", *on)
    for words in (["resume", "--sink", "quiet"], ["tune", "enabled", "--reset"], ["tune", "poll", "--reset"]):
        box.cli(*words)
    witness.run("check", "check", "--relays", "-:-", "--dead-last-hour", "1:-", "--dead", "-:1", *on, status=2)
    witness.run("check", "check", *["--" + name + "=-:-" for name in ("relays", "oldest", "dead", "dead-last-hour", "retry-share", "breakers")], *on)
    witness.run("check", "check", "--relays=-:-", "--oldest=-:-", "--dead-last-hour=1:-", "--dead=-:-", "--retry-share=-:-", *on, status=1)
    witness.run("check", "check", "--dead", "x", *on, status=3)
    witness.run("tail", "tail", "--since", "-1h", "--once", *on)
    if box.url.startswith("sqlite"):  # it takes seconds; test_bench.py has both stores
        witness.run("bench", "bench", "--seconds", "3", "--yes", *on)
    witness.run("purge", "purge", *on)


def operate(witness, box):
    on = ["--store", box.url]
    scopes = [["--topic", "plain"], ["--namespace", "shop"], ["--sink", "out"], []]
    for scope in scopes:
        for _ in range(2):
            witness.run("pause", "pause", *scope, "--yes", "--force", "--reason", "moving", *on)
    witness.run("status", "status", *on)
    for scope in scopes:
        witness.run("resume", "resume", *scope, *on)
        witness.run("error", "resume", *scope, *on, status=1)
    witness.run("error", "pause", "--topic", "plian", *on, status=1)
    for role, more in (("viewer", ["--tenant", TENANT, "--expires", "90d"]), ("operator", []), ("admin", [])):
        witness.run("token_create", "token", "create", role, "--role", role, *more, *on)
    witness.run("token_revoke", "token", "revoke", "admin", *on)
    witness.run("token_list", "token", "list", *on)
    witness.run("tune", "tune", *on)
    witness.run("tune", "tune", "batch", "7", *on)
    witness.run("tune", "tune", "sink.out.rate", "5/s", "--force", *on)
    witness.run("tune", "tune", *on)
    witness.run("tune", "tune", "batch", "--reset", *on)
    witness.run("error", "tune", "bach", "7", *on, status=2)
    witness.run("configure", "configure", *on)
    witness.run("configure", "configure", "max_attempts", "9", "--namespace", "shop", *on)
    witness.run("configure", "configure", "max_attempts", "--reset", "--namespace", "shop", *on)
    witness.run("error", "configure", "max_atempts", "9", *on, status=2)


def fail(witness, box):
    """Mistakes of every kind have one form, also those on the command line."""
    on = ["--store", box.url]
    for words in (["show", "42"], ["show", UNKNOWN + "x"], ["list", "--status", "gone"], ["list", "--limit", "x"], ["send", "t"],
                  ["pause", "--sugar"], ["stauts"], [], ["help"], ["version", "now"], ["purge", "-x"], ["migrate", "--print"],
                  ["config", "--sample"], ["list", "--before", "soon"]):
        witness.run("error", *words, *(on if words else []), status=2)
    witness.run("error", "show", UNKNOWN, *on, status=1)
    witness.run("error", "status", status=2)
    witness.run("error", "status", "--store", "sqlite:/nowhere/x.db", status=69)
    witness.run("error", "status", "--store", "postgresql://u:secret@127.0.0.1:1/x", status=69)
    witness.run("error", "run", *on, status=78, env={"OUTBOX_CONFIG": "/nowhere.yaml"})


# ---- configurations ---------------------------------------------------------------------------------------------------


GOOD = """\
store: sqlite:%s
relay: {lease: 20s}
sinks:
  out: {kind: "null"}
  hook: {kind: http, url: "https://127.0.0.1:1/${TOKEN}", secret: whsec_c2VjcmV0c2VjcmV0c2VjcmV0c2VjcmV0}
routes: [{topic: "bytes", sink: hook}, {topic: "plain", sink: out}]
"""
BAD = """\
store: sqlite:%s
relay: {pol: 1s, lease: 30, poll: 15s}
sinks: {out: {kind: pigeon}}
"""


def configure(witness, box, folder):
    path = re.sub("^sqlite:", "", box.url)
    good, bad = folder / "good.yaml", folder / "bad.yaml"
    good.write_text((GOOD % path).replace("sqlite:" + path, box.url))
    bad.write_text((BAD % path).replace("sqlite:" + path, box.url))
    env = {"OUTBOX_RELAY_BATCH": "20", "OUTBOX_RELAY_PO": "1", "TOKEN": "x"}
    witness.run("config", "config", "--config", str(good), "--set", "relay.run=3", env=env)
    witness.run("config", "config", "--store", box.url)
    witness.run("validate", "validate", str(good), env=env)
    witness.run("validate", "validate", str(bad), status=78)
    witness.run("validate", "validate", str(good), "--set", "relay.lease=30", env=env, status=78)
    witness.run("error", "validate", status=78)  # no file at all
    witness.run("error", "config", "--config", str(bad), status=78)
    box.cli("pause", "--topic", "plain", "--force")
    witness.run("doctor", "doctor", "--config", str(good), env=env, status=1)
    good.write_text("store: %s\nsinks: {out: {kind: 'null'}}\nroutes: [{sink: out}]\n" % box.url)
    witness.run("doctor", "doctor", "--config", str(good), status=1)  # dead letters of this hour, sinks that fail
    fresh = folder / "fresh.db"
    witness.run("init", "init", "sqlite:%s" % fresh)
    good.write_text("store: sqlite:%s\nsinks: {out: {kind: 'null'}}\nroutes: [{sink: out}]\n" % fresh)
    witness.run("doctor", "doctor", "--config", str(good))


def payloads(witness, folder):
    schema, wrong = folder / "a.json", folder / "wrong.json"
    schema.write_text('{"properties": {"a": {"type": "string"}}}')
    wrong.write_text('{"properties": 1}')
    witness.run("validate_payload", "validate", "--json-schema", str(schema), '{"a": "x"}')
    witness.run("validate_payload", "validate", "--json-schema", str(schema), '{"a": 1}', status=2)
    witness.run("validate_payload", "validate", "--json-schema", str(wrong), status=78)
    witness.run("error", "validate", "--json-schema", str(schema), "@/nowhere", status=2)


# ---- the stores -------------------------------------------------------------------------------------------------------


def live_on_sqlite(witness, folder):
    box = Box("sqlite:%s" % (folder / "shop.db"))
    witness.run("init", "init", box.url)
    witness.run("init", "init", box.url)
    witness.run("migrate", "migrate", "--store", box.url)
    witness.run("migrate_status", "migrate", "--status", "--store", box.url)

    def raw(what):
        with sqlite3.connect(folder / "shop.db") as conn:
            if what == "stuck":
                conn.execute("UPDATE outbox_queue SET until = 1 WHERE until IS NOT NULL")
            elif what == "relay":
                now = int(time.time() * 1e6)
                conn.executemany("INSERT INTO outbox_relay VALUES (?, ?, 1, ?, 'running', ?, ?, 10000000, ?)",
                                 [("w1", "h", "1", now, now, RELAY), ("w2", None, None, now, now, None)])
            elif what == "limited":
                conn.execute("UPDATE outbox_queue SET by_sink = 1")
            else:
                conn.execute("INSERT INTO outbox (topic, payload, encoding) VALUES ('damaged', ?, 'zstd')", (FRAME[:-3],))
    return box, raw


def live_on_postgresql(witness, server):
    db = create_database(server, "json")
    box = Box(db.url())
    on = ["--store", box.url]
    witness.run("migrate_status", "migrate", "--status", *on, status=1)
    witness.run("error", "status", *on, status=78)
    witness.run("migrate", "migrate", "--dry-run", *on)
    witness.run("migrate", "migrate", *on)
    witness.run("init", "init", *on)
    witness.run("migrate_status", "migrate", "--status", *on)

    def raw(what):
        if what == "stuck":
            db.sql("update outbox.queue set until = now() - interval '1 min' where until is not null")
        elif what == "relay":
            db.sql("select outbox.beat('w1', 'h', 1, '1', info => %s::jsonb), outbox.beat('w2', null, 1)", RELAY)
        elif what == "limited":
            db.sql("update outbox.queue set by_sink = true")
        else:
            db.sql("select outbox.enqueue_bytes('damaged', %s, null, encoding => 'zstd')", FRAME[:-3])
    return box, raw


def break_postgresql(witness, server):
    """A database that was changed by hand and by a later version; a schema that was somebody else's."""
    db = create_database(server, "json_broken")
    db.cli("migrate")
    db.sql("update outbox.migration set checksum = 'another' where version = 2")
    db.sql("insert into outbox.migration values (999, '999_future', 'x')")
    witness.run("migrate_status", "migrate", "--status", "--store", db.url(), status=1)
    witness.run("error", "migrate", "--store", db.url(), status=78)
    db.sql("create schema theirs; grant create on schema theirs to public")
    adopted, = witness.run("migrate", "migrate", "--schema", "theirs", "--adopt", "--dry-run", "--store", db.url())
    if not adopted["adopted"]:
        witness.faults.append("migrate --adopt tells nothing that it did")
    drop_database(db)


@pytest.fixture(scope="module")
def witness(request, tmp_path_factory):
    witness = Witness(tmp_path_factory.mktemp("schemas"))
    witness.run("version", "version")
    for store in STORES:
        folder = tmp_path_factory.mktemp(store)
        if store == "postgresql":
            server = request.getfixturevalue("pg_server")
            box, raw = live_on_postgresql(witness, server)
            break_postgresql(witness, server)
        else:
            box, raw = live_on_sqlite(witness, folder)
        live(witness, box, raw)
        operate(witness, box)
        fail(witness, box)
        configure(witness, box, folder)
        payloads(witness, folder)
    return witness


def test_every_document_is_as_promised(witness):
    """V13 T4: what is printed fits its schema to the last field, on stdout and on stderr, whatever the exit status."""
    assert witness.judge() == []


def fields_of(schema, root, path=""):
    """(path, may be null, words) of every field."""
    if "$ref" in schema:
        schema = root["$defs"][schema["$ref"].rsplit("/", 1)[1]]
    for name, field in schema.get("properties", {}).items():
        yield path + "/" + name, "null" in field.get("type", []) or None in field.get("enum", []), field.get("enum", [])
        yield from fields_of(field, root, path + "/" + name)
    if "items" in schema:
        yield from fields_of(schema["items"], root, path + "/*")


@pytest.mark.parametrize("name", NAMES)
def test_every_field_was_seen(witness, name):
    """V13: with a value, and as null where it may be; a field that nothing prints is no promise."""
    seen, missing = witness.seen.get(name, {}), []
    schema = schema_of(name)
    for path, nullable, words in fields_of(schema, schema):
        values = seen.get(path, set())
        if not values - {"null"}:
            missing.append(path)
        if nullable and "null" not in values:
            missing.append(path + " as null")
        missing += ["%s as %s" % (path, word) for word in words if word and json.dumps(word) not in values]
    missing = [what for what in missing if what not in ELSEWHERE]
    assert missing == []


def columns_of(view):
    with open(os.path.join(ROOT, "docs", "views.md"), encoding="utf-8") as file:
        section = re.search(r"^## %s\n(.*?)(?=^## |\Z)" % view, file.read(), re.MULTILINE | re.DOTALL).group(1)
    return set(re.findall(r"^\| `(\w+)`", section, re.MULTILINE))


@pytest.mark.parametrize("document, part, view", [
    ("show", "message", "messages"), ("show", "attempt", "attempts"), ("show", "act", "acts"), ("status", "topic", "status")])
def test_one_thing_has_one_name(document, part, view):
    """M3: a field is named like the column that it comes from."""
    fields = set(schema_of(document)["$defs"][part]["properties"])
    assert fields - columns_of(view) <= {"payload_base64", "payload_fault"}
    assert view != "status" or fields == columns_of(view)


def test_every_command_has_its_document():
    """V13: a new command is documented, or stands among those that print none."""
    with open(os.path.join(ROOT, "def", "commands.def")) as file:
        commands = set(re.findall(r"^OUTBOX_COMMAND\((\w+)", file.read(), re.MULTILINE))
    assert commands - WITHOUT == set(NAMES) - {"migrate_status", "validate_payload", "error", "note", "token_create", "token_list", "token_revoke"} | {"token"}


def test_a_field_that_is_not_named_is_seen(tmp_path):
    """V13: this file can fail: by a field more, a field less, another type."""
    for text in ('{"note": "a", "more": 1}', '{}', '{"note": 1}'):
        witness = Witness(tmp_path)
        witness.keep("note", text, "here")
        assert len(witness.judge()) == 1
