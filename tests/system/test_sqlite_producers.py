"""Producers on SQLite without our library: INSERT INTO outbox from the sqlite3 shell and from Python.

Proves: N1 (the embedded default), M1 M3 M4 M5 M6, S2 S6 S18, V3 V9, T6 as they show through plain SQL; and that neither
the pragmas of a producer's connection nor its conflict clause change anything.
"""
import itertools
import json
import os
import re
import shutil
import sqlite3
import stat
import subprocess
import threading

import pytest

from support.relay import Relay
from support.sqlite_file import Outbox, needs_sqlite

pytestmark = needs_sqlite

TENANT = "0a0a0a0a-1111-4222-8333-444444444444"
OTHER = "0b0b0b0b-1111-4222-8333-444444444444"
UUID7 = re.compile(r"^[0-9a-f]{8}-[0-9a-f]{4}-7[0-9a-f]{3}-[89ab][0-9a-f]{3}-[0-9a-f]{12}$")


@pytest.fixture
def outbox(tmp_path):
    box = Outbox.create(tmp_path / "shop.db")
    box.sql("CREATE TABLE orders (id INTEGER PRIMARY KEY, state TEXT)")
    return box


@pytest.fixture
def conn(outbox):
    conn = outbox.connect()
    yield conn
    conn.close()


def put(conn, verb="INSERT", **columns):
    columns = {"topic": "t", "payload": "{}", **columns}
    conn.execute("%s INTO outbox (%s) VALUES (%s)" % (verb, ", ".join(columns), ", ".join("?" * len(columns))),
                 list(columns.values()))
    return conn.execute("SELECT id, seq, created FROM outbox_last").fetchone()


# ---- the transaction is the application's ------------------------------------------------------------------------------


def test_from_the_shell(outbox):
    """N1 M1: the sqlite3 shell is a producer; the receipt is read in the same transaction."""
    script = """
        BEGIN;
        INSERT INTO orders VALUES (42, 'paid');
        INSERT INTO outbox (topic, payload, key) VALUES ('orders.paid', '{"id": 42}', 'customer-7');
        SELECT id, seq, created FROM outbox_last;
        COMMIT;
    """
    done = subprocess.run([shutil.which("sqlite3"), outbox.path], input=script, text=True, stdout=subprocess.PIPE,
                          stderr=subprocess.PIPE, check=True)
    assert done.stderr == ""
    message_id, seq, created = done.stdout.strip().split("|")
    assert UUID7.match(message_id) and (seq, created) == ("1", "1")
    assert outbox.sql("SELECT id, namespace, topic, key, seq, status, payload FROM outbox_messages") == [
        (message_id, "default", "orders.paid", "customer-7", 1, "pending", '{"id": 42}')]
    assert outbox.actor("claim", 10, 1).stdout.split() == [message_id, "1", "customer-7", "1"]


def test_commit_and_rollback(outbox, conn):
    """M1: both or neither."""
    before = outbox.dump()
    conn.execute("BEGIN")
    conn.execute("INSERT INTO orders VALUES (1, 'paid')")
    put(conn, topic="new", key="k", dedupe_key="d")
    conn.execute("ROLLBACK")
    assert outbox.dump() == before
    conn.execute("BEGIN")
    conn.execute("INSERT INTO orders VALUES (1, 'paid')")
    assert put(conn, topic="new", key="k", dedupe_key="d")[1:] == (1, 1)
    assert outbox.value("SELECT count(*) FROM outbox_messages") == 0
    conn.execute("COMMIT")
    assert outbox.value("SELECT count(*) FROM outbox_messages") == 1


def test_savepoint(outbox, conn):
    """M1 S18: a part of a transaction that is undone leaves no message and no gap."""
    conn.execute("BEGIN")
    put(conn, key="k")
    conn.execute("SAVEPOINT part")
    assert put(conn, key="k", dedupe_key="d")[1] == 2
    conn.execute("ROLLBACK TO part")
    assert put(conn, key="k", dedupe_key="d")[1:] == (2, 1)
    conn.execute("COMMIT")
    assert outbox.sql("SELECT seq FROM outbox_messages ORDER BY seq") == [(1,), (2,)]


def test_within_a_trigger_of_the_application(outbox, conn):
    """M1 V2: an application's own trigger enqueues, and goes on after a duplicate."""
    conn.executescript("""
        CREATE TABLE log (text);
        CREATE TRIGGER paid AFTER UPDATE OF state ON orders WHEN NEW.state = 'paid' BEGIN
            INSERT INTO outbox (topic, payload, dedupe_key) VALUES ('paid', '{"id": ' || NEW.id || '}', 'order-' || NEW.id);
            INSERT INTO log SELECT created FROM outbox_last;
        END;
        INSERT INTO orders VALUES (1, 'new'), (2, 'new');
        UPDATE orders SET state = 'paid';
        UPDATE orders SET state = 'paid';
    """)
    assert outbox.sql("SELECT payload FROM outbox_messages ORDER BY payload") == [('{"id": 1}',), ('{"id": 2}',)]
    assert outbox.sql("SELECT text FROM log") == [(1,), (1,), (0,), (0,)]


def test_many_rows_in_one_statement(outbox, conn):
    """M6 S2: INSERT ... SELECT, duplicates among the rows included."""
    conn.executemany("INSERT INTO orders VALUES (?, 'paid')", [(n,) for n in range(1, 51)])
    conn.execute("INSERT INTO outbox (topic, payload, key, dedupe_key)"
                 " SELECT 'paid', '{\"id\": ' || id || '}', 'k' || (id % 3), 'd' || (id % 40) FROM orders ORDER BY id")
    assert outbox.value("SELECT count(*) FROM outbox_messages") == 40
    for key in ("k0", "k1", "k2"):
        seqs = [row[0] for row in outbox.sql("SELECT seq FROM outbox_messages WHERE key = ? ORDER BY seq", key)]
        assert seqs == list(range(1, len(seqs) + 1))
    with pytest.raises(sqlite3.Error, match="OB001"):
        conn.execute("INSERT INTO outbox (topic, payload) SELECT CASE id WHEN 30 THEN 'a b' ELSE 'late' END, '{}' FROM orders")
    assert outbox.value("SELECT count(*) FROM outbox_messages WHERE topic = 'late'") == 0


# ---- duplicates ------------------------------------------------------------------------------------------------------


def test_duplicate(outbox, conn):
    """M4 S4 S18: the same id and seq, nothing written, no sequence number spent."""
    first = put(conn, key="k", dedupe_key="d")
    before = outbox.dump()
    assert put(conn, key="other", dedupe_key="d", payload='{"another": 1}') == (first[0], first[1], 0)
    assert outbox.dump() == before
    assert put(conn, key="k")[1] == 2


def test_two_processes_race(outbox):
    """M4: many connections at once, one message a key."""
    threads, wins = [], []
    gate = threading.Barrier(4)

    def racer():
        conn = outbox.connect()
        for n in range(40):
            gate.wait()
            conn.execute("BEGIN IMMEDIATE")
            wins.append((n, put(conn, key="k", dedupe_key="round-%d" % n)))
            conn.execute("COMMIT")
        conn.close()

    for _ in range(4):
        threads.append(threading.Thread(target=racer))
        threads[-1].start()
    for thread in threads:
        thread.join()
    for n in range(40):
        receipts = [receipt for number, receipt in wins if number == n]
        assert len(receipts) == 4 and sum(receipt[2] for receipt in receipts) == 1
        assert len({receipt[:2] for receipt in receipts}) == 1
    assert outbox.value("SELECT count(*) FROM outbox_messages") == 40


# ---- no pragma and no conflict clause changes anything -----------------------------------------------------------------

PRAGMAS = {
    "foreign_keys": ("ON", "OFF"),
    "recursive_triggers": ("ON", "OFF"),
    "trusted_schema": ("ON", "OFF"),
    "ignore_check_constraints": ("ON", "OFF"),
    "case_sensitive_like": ("ON", "OFF"),
    "reverse_unordered_selects": ("ON", "OFF"),
    "defer_foreign_keys": ("ON", "OFF"),
    "count_changes": ("ON", "OFF"),
}
VERBS = ("INSERT", "INSERT OR ABORT", "INSERT OR REPLACE", "INSERT OR IGNORE", "INSERT OR FAIL", "REPLACE")


def pragma_sets():
    """Each pragma away from its default alone, then all at once."""
    yield {}
    for name, values in PRAGMAS.items():
        for value in values:
            yield {name: value}
    yield {name: values[0] for name, values in PRAGMAS.items()}
    yield {name: values[1] for name, values in PRAGMAS.items()}


@pytest.mark.parametrize("pragmas", list(pragma_sets()), ids=lambda pragmas: ",".join("%s=%s" % p for p in pragmas.items()) or "-")
def test_pragmas_and_conflict_clauses(outbox, conn, pragmas):
    """N1 M4 M1: what exists is never touched, duplicates are found, mistakes are refused, whatever the producer set."""
    for name, value in pragmas.items():
        conn.execute("PRAGMA %s = %s" % (name, value))
    first = put(conn, key="k", dedupe_key="d", payload='{"first": 1}')
    outbox.actor("settle", 1, 1, 1)
    for n, verb in enumerate(VERBS):
        created = put(conn, verb, key="k", dedupe_key="new-%d" % n, payload='{"n": %d}' % n)
        assert created[2] == 1 and created[1] == n + 2
        before = outbox.dump()
        assert put(conn, verb, key="k", dedupe_key="d", payload='{"second": 1}') == (first[0], 1, 0)
        for bad in ({"topic": None}, {"topic": ""}, {"payload": None}, {"payload": "{"}, {"priority": 10},
                    {"tenant_id": TENANT, "dedupe_key": "without-prefix"}, {"key": ""}):
            with pytest.raises(sqlite3.Error, match="OB00[13]|malformed JSON"):
                put(conn, verb, **bad)
        assert outbox.dump() == before
    assert outbox.value("SELECT payload FROM outbox_messages WHERE id = ?", first[0]) == '{"first": 1}'
    assert outbox.value("SELECT count(*) FROM outbox_messages") == len(VERBS) + 1
    outbox.check_sound()


def test_or_rollback(outbox, conn):
    """M1: the one clause that reaches further takes the whole transaction, as SQLite documents; nothing is left of it."""
    before = outbox.dump()
    conn.execute("BEGIN")
    conn.execute("INSERT INTO orders VALUES (1, 'paid')")
    put(conn, "INSERT OR ROLLBACK")
    with pytest.raises(sqlite3.Error, match="OB001"):
        put(conn, "INSERT OR ROLLBACK", topic="")
    if conn.in_transaction:
        conn.execute("ROLLBACK")
    assert outbox.dump() == before


# ---- what is refused -------------------------------------------------------------------------------------------------

BAD = [
    ({"topic": "a b"}, "OB001"), ({"topic": "a*"}, "OB001"), ({"topic": "x" * 256}, "OB001"), ({"topic": b"t"}, "OB001"), ({"key": b"k"}, "OB001"),
    ({"dedupe_key": b"d"}, "OB001"), ({"correlation_id": b"c"}, "OB001"),
    ({"topic": "nul\0"}, "OB001"), ({"key": "nul\0inside"}, "OB001"), ({"key": "line\n"}, "OB001"),
    ({"key": "x" * 513}, "OB001"), ({"key": "\u00fc" * 257}, "OB001"), ({"dedupe_key": ""}, "OB001"),
    ({"namespace": "x" * 64}, "OB001"), ({"subject": "\x7f"}, "OB001"), ({"recipient": "x" * 1025}, "OB001"),
    ({"correlation_id": "x" * 256}, "OB001"), ({"payload": b"{}"}, "OB001"), ({"payload": "{'a': 1}"}, "malformed JSON"),
    ({"payload": '"a\0b"'}, "OB001"), ({"payload": '"\\u0000"'}, "OB001"), ({"payload": '"\\ud800"'}, "OB001"),
    ({"payload": '"\\ude00\\ud83d"'}, "OB001"), ({"payload": '"' + "x" * (1 << 20) + '"'}, "OB006"),
    ({"priority": -1}, "OB001"), ({"priority": "high"}, "OB001"), ({"priority": 1.5}, "OB001"),
    ({"max_attempts": 0}, "OB001"), ({"max_attempts": 1001}, "OB001"), ({"tenant_id": "nobody"}, "OB001"),
    ({"tenant_id": TENANT + "0"}, "OB001"), ({"deliver_after": "soon"}, "OB001"), ({"deliver_after": -1}, "OB001"),
    ({"deliver_after": 1.5}, "OB001"), ({"expires_at": "1969-01-01"}, "OB001"), ({"headers": "[]"}, "OB001"),
    ({"headers": '{"n": 1}'}, "OB001"), ({"headers": '{"a b": "v"}'}, "OB001"), ({"headers": '{"a": "\\r\\n"}'}, "OB001"),
    ({"headers": "{"}, "malformed JSON"), ({"headers": json.dumps({"a": "x" * 17000})}, "OB006"),
    ({"content_type": ""}, "OB001"), ({"content_type": "x/y", "payload": None}, "OB001"),
    ({"tenant_id": TENANT, "dedupe_key": OTHER + "/1"}, "OB003"), ({"tenant_id": TENANT, "dedupe_key": TENANT}, "OB003"),
    ({"id": TENANT}, "OB001"), ({"status": "published"}, "OB001"), ({"created_at": 1}, "OB001"),
]


@pytest.mark.parametrize("columns, code", BAD, ids=lambda value: str(value)[:40])
def test_bad_messages(outbox, conn, columns, code):
    """M5 M6 V3: refused with a code, whatever else the transaction did; nothing is written."""
    before = outbox.dump()
    conn.execute("BEGIN")
    conn.execute("INSERT INTO orders VALUES (1, 'paid')")
    with pytest.raises(sqlite3.Error, match=code):
        put(conn, **columns)
    conn.execute("ROLLBACK")
    assert outbox.dump() == before


GOOD = [
    {"payload": "null"}, {"payload": "42"}, {"payload": 42}, {"payload": '"\\ud83d\\ude00 \\\\u0000"'},
    {"payload": b"\0\xff", "content_type": "application/octet-stream"}, {"payload": "plain", "content_type": "text/plain"},
    {"payload": b"", "content_type": "x/y"}, {"topic": "gr\u00f6\u00dfe/\u2603.v1"}, {"key": "a b'c\"d;--"}, {"key": 7},
    {"headers": "{}"}, {"headers": '{"X-Ok_1.2~": "gr\u00f6\u00dfe"}'}, {"tenant_id": TENANT.upper()},
    {"tenant_id": TENANT, "dedupe_key": TENANT + "/1"}, {"priority": 0}, {"priority": 9}, {"max_attempts": 1000},
    {"key": "x" * 512, "subject": "s" * 512, "recipient": "r" * 1024, "correlation_id": "c" * 255},
]


@pytest.mark.parametrize("columns", GOOD, ids=lambda value: str(value)[:40])
def test_good_messages(outbox, conn, columns):
    """M6 M19 V9 V16: what is right comes through as it was given."""
    message_id, _, created = put(conn, **columns)
    assert created == 1
    names = [name for name in columns if name != "payload"]
    row = conn.execute("SELECT %s payload, body FROM outbox_messages WHERE id = ?" % "".join(n + ", " for n in names),
                       (message_id,)).fetchone()
    for name, value in zip(names, row):
        wanted = columns[name].lower() if name == "tenant_id" else columns[name]
        assert value == (str(wanted) if name == "key" else wanted)
    payload = columns.get("payload", "{}")
    if "content_type" in columns:
        assert row[-2:] == (None, payload if isinstance(payload, bytes) else payload.encode())
    else:
        assert row[-2:] == (str(payload), None)


@pytest.mark.parametrize("column", ["topic", "namespace", "key", "dedupe_key", "subject", "recipient", "correlation_id",
                                    "content_type", "headers"])
def test_texts_are_utf_8(outbox, conn, column):
    """M6: no other bytes get in; what is UTF-8 does, up to its last character."""
    def insert(hexadecimal):
        text = "'a' || CAST(x'%s' AS TEXT) || 'z'" % hexadecimal
        value = "'{\"n\": \"' || %s || '\"}'" % text if column == "headers" else text
        names, values = ["payload", column], ["'1'", value]
        if column != "topic":
            names.append("topic"), values.append("'t'")
        conn.execute("INSERT INTO outbox (%s) VALUES (%s)" % (", ".join(names), ", ".join(values)))
    for bad in ["ff", "fc", "c3", "80", "e282", "f09f93", "c080", "e0809f", "eda080", "f4908080", "f8888080", "c3a4c3"]:
        with pytest.raises(sqlite3.Error, match="OB001"):
            insert(bad)
    for good in ["c3a4", "e282ac", "f09f93a6", "f48fbfbf", "efbfbf", "efbfbe", "efbfbd", "c3a4" * 20]:
        insert(good)


def test_a_payload_that_is_not_utf_8_is_never_delivered(outbox, conn, tmp_path):
    """M6: a trigger cannot look through long texts, so the claim does."""
    conn.execute("INSERT INTO outbox (topic, payload) VALUES ('t', '\"' || CAST(x'fc' AS TEXT) || '\"')")
    conn.commit()
    out = tmp_path / "out"
    Relay(tmp_path, "sqlite:%s" % outbox.path, {"out": {"kind": "file", "path": str(out)}}, [{"sink": "out"}]).until_empty()
    assert not out.exists()
    assert conn.execute("SELECT last_code, status FROM outbox_messages").fetchall() == [("not_json", "dead")]


def test_a_new_file_is_its_owners_alone(tmp_path):
    """N1: whatever the umask; what is there keeps its rights."""
    old, new = tmp_path / "old.db", tmp_path / "new.db"
    old.touch()
    old.chmod(0o664)
    before = os.umask(0)
    try:
        for path in (old, new):
            Outbox.create(path)
    finally:
        os.umask(before)
    assert [stat.S_IMODE(path.stat().st_mode) for path in (old, new)] == [0o664, 0o600]


def test_times(outbox, conn):
    """V9 N10: ISO text, with or without a zone, or microseconds; shown as ISO text."""
    for given, shown in (("2030-01-31T08:00:00Z", "2030-01-31T08:00:00.000000Z"),
                         ("2030-01-31 08:00:00.123", "2030-01-31T08:00:00.123000Z"),
                         ("2030-01-31T08:00:00+02:00", "2030-01-31T06:00:00.000000Z"),
                         (1895990400123456, "2030-01-30T08:00:00.123456Z")):
        message_id = put(conn, deliver_after=given)[0]
        assert conn.execute("SELECT next_attempt_at FROM outbox_messages WHERE id = ?", (message_id,)).fetchone() == (shown,)
    assert outbox.actor("claim", 10, 1).stdout == ""


def test_scopes_and_settings(outbox, conn):
    """M4 M5 V9: settings of a namespace hold for the next enqueue, by command or by plain SQL."""
    outbox.actor("configure", "pay", "dedupe_scope", "namespace")
    first = put(conn, namespace="pay", topic="a", dedupe_key="d")
    assert put(conn, namespace="pay", topic="b", dedupe_key="d") == (first[0], None, 0)
    assert put(conn, topic="a", dedupe_key="d")[2] == 1 and put(conn, topic="b", dedupe_key="d")[2] == 1
    conn.execute("UPDATE outbox_namespace SET max_payload = 10 WHERE name = '*'")
    with pytest.raises(sqlite3.Error, match="OB006"):
        put(conn, topic="a", payload='"0123456789"')
    with pytest.raises(sqlite3.Error, match="CHECK"):
        conn.execute("UPDATE outbox_namespace SET max_payload = 0 WHERE name = '*'")


# ---- the record ------------------------------------------------------------------------------------------------------


def history(outbox, conn):
    """A message in every state, with attempts and acts."""
    conn.executescript("".join("INSERT INTO outbox (topic, payload, key, dedupe_key, tenant_id) VALUES ('t', '{}', 'k%d',"
                               " '%s/%d', '%s');" % (n, TENANT, n, TENANT) for n in range(4)))
    outbox.actor("settle", 2, 3, 1)
    outbox.cli("retry", "--topic", "t", "--yes", "--reason", "again", check=False)
    outbox.actor("claim", 1, 1)


@pytest.mark.parametrize("recursive", ("ON", "OFF"))
def test_append_only(outbox, conn, recursive):
    """S6 V8: nobody rewrites messages, attempts, acts or dedupe keys by UPDATE, DELETE or REPLACE."""
    history(outbox, conn)
    conn.execute("PRAGMA recursive_triggers = " + recursive)
    before = outbox.dump()
    for table in ("outbox_message", "outbox_attempt", "outbox_act", "outbox_dedupe"):
        column = conn.execute("SELECT name FROM pragma_table_info(?) WHERE pk = 0 LIMIT 1", (table,)).fetchone()[0]
        if conn.execute("SELECT count(*) FROM " + table).fetchone() == (0,):
            assert table == "outbox_act"
            continue
        for statement in ("UPDATE %s SET %s = %s" % (table, column, column), "DELETE FROM %s" % table):
            with pytest.raises(sqlite3.IntegrityError, match="append-only|immutable"):
                conn.execute(statement)
    for statement in ("INSERT OR REPLACE INTO outbox_attempt SELECT * FROM outbox_attempt",
                      "INSERT INTO outbox_attempt VALUES (1, 99, 1, 1, 1, 1, 1, 'w', NULL, NULL, NULL)"):
        with pytest.raises(sqlite3.IntegrityError, match="outbox_attempt takes only"):
            conn.execute(statement)
    for statement in ("DELETE FROM outbox", "UPDATE outbox SET topic = 'x'", "DELETE FROM outbox_messages"):
        with pytest.raises(sqlite3.OperationalError, match="view"):
            conn.execute(statement)
    assert outbox.dump() == before


def test_only_purge_and_erasure_pass(outbox, conn):
    """S6 V14 S1: the two that delete from the record do, and leave the guards closed behind them."""
    history(outbox, conn)
    put(conn, topic="other")
    assert outbox.actor("purge").stdout == "0\n"
    outbox.actor("configure", "*", "retention", "0 s")
    assert outbox.actor("purge").stdout == "1\n"
    assert outbox.actor("erase", TENANT).stdout == "3\n"
    assert outbox.sql("SELECT topic FROM outbox_messages") == [("other",)]
    assert outbox.value("SELECT count(*) FROM outbox_attempt") == 0
    assert outbox.sql("SELECT actor, reason FROM outbox_acts WHERE action = 'erase_tenant'") == [("ann", "gone")]
    outbox.check_sound()
    with pytest.raises(sqlite3.IntegrityError, match="immutable"):
        conn.execute("DELETE FROM outbox_message")


def test_numbers_are_never_used_twice(outbox, conn):
    """S2 S6 S7: also when the newest message was purged or erased; attempts that are kept stay with their own message."""
    first = put(conn, key="k", tenant_id=TENANT)[0]
    outbox.actor("settle", 1, 1, 1)
    outbox.actor("configure", "*", "attempt_retention", "forever")
    outbox.actor("configure", "*", "retention", "0 s")
    assert outbox.actor("purge").stdout == "1\n"
    before = outbox.dump()
    assert outbox.actor("purge").stdout == "0\n" and outbox.dump() == before
    second, seq, created = put(conn, key="k", tenant_id=TENANT)
    assert (seq, created) == (2, 1)
    third = put(conn, key="other")[0]
    assert outbox.sql("SELECT message_id, outcome FROM outbox_attempts") == [(first, "delivered")]
    assert sorted(line.split()[0] for line in outbox.actor("claim", 10, 1).stdout.splitlines()) == sorted([second, third])
    assert outbox.actor("erase", TENANT).stdout == "1\n"
    put(conn, tenant_id=OTHER)
    outbox.actor("erase", OTHER)
    fourth = put(conn)
    assert fourth[2] == 1
    assert outbox.sql("SELECT id, attempts FROM outbox_messages ORDER BY id") == [(third, 1), (fourth[0], 0)]
    assert outbox.value("SELECT count(DISTINCT sid) = count(sid) FROM outbox_queue WHERE sid IS NOT NULL") == 1
    outbox.check_sound()


def test_the_words_of_a_well_known_table(outbox, conn):
    """T6: pending, publishing, published, failed, dead_lettered; and the first of the two operational statements."""
    for n in range(5):
        put(conn, priority=9 - n, dedupe_key="d%d" % n, payload='{"n": %d}' % n)
    outbox.actor("settle", 1, 1, 1)   # delivered
    outbox.actor("settle", 1, 3, 0)   # dead
    outbox.actor("settle", 1, 2, 0)   # failed once
    conn.execute("UPDATE outbox_queue SET due = due + 3600000000 WHERE attempts = 1")
    outbox.actor("claim", 1, 1)
    rows = conn.execute("SELECT idempotency_key, status, retry_count, payload_json FROM outbox ORDER BY idempotency_key")
    assert rows.fetchall() == [("d0", "published", 0, '{"n": 0}'), ("d1", "dead_lettered", 0, '{"n": 1}'),
                               ("d2", "failed", 1, '{"n": 2}'), ("d3", "publishing", 0, '{"n": 3}'),
                               ("d4", "pending", 0, '{"n": 4}')]
    found = conn.execute("SELECT * FROM outbox WHERE status IN ('failed', 'dead_lettered') ORDER BY next_attempt_at")
    assert len(found.fetchall()) == 2


def test_views_have_the_columns_of_postgresql(outbox, conn):
    """M3 S7 S17: the same names on both stores."""
    columns = {view: [row[0] for row in conn.execute("SELECT name FROM pragma_table_info(?)", (view,))]
               for view in ("outbox_messages", "outbox_attempts", "outbox_dead_letters", "outbox_status", "outbox_acts")}
    assert columns == {
        "outbox_messages": "id namespace topic tenant_id key seq dedupe_key subject recipient correlation_id status attempts"
                           " spent max_attempts max_attempts_from deferred priority next_attempt_at locked_by locked_until parked redriven last_code"
                           " last_error dead_reason created_at updated_at delivered_at expires_at headers content_type"
                           " payload body encoding".split(),
        "outbox_attempts": "attempt_id message_id attempt_no namespace topic tenant_id key seq subject dedupe_key"
                           " correlation_id outcome worker claimed_at completed_at latency_ms code error reference".split(),
        "outbox_dead_letters": "id namespace topic tenant_id key seq dedupe_key subject recipient correlation_id reason code"
                               " error attempts spent max_attempts priority held created_at died_at expires_at headers"
                               " content_type payload body encoding fingerprint".split(),
        "outbox_status": "namespace topic pending due delayed processing stuck parked dead oldest_due_s paused retrying"
                         " oldest_undelivered_s last_code last_error last_error_at estimated dead_last_hour".split(),
        "outbox_acts": "id at actor action reason message_id tenant_id detail".split(),
    }


def test_ids_are_unique_and_sort(outbox, conn):
    """M3: uuids of version 7; ids of one connection sort as they were made, from one millisecond to the next."""
    conn.execute("BEGIN")
    ids = [put(conn)[0] for _ in range(3000)]
    conn.execute("COMMIT")
    assert len(set(ids)) == 3000 and all(UUID7.match(message_id) for message_id in ids)
    stamps = [message_id[:13] for message_id in ids]
    assert stamps == sorted(stamps)
    assert all(a[:13] == b[:13] or a < b for a, b in itertools.pairwise(ids))
