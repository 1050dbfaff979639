"""Producers' input: what enqueue takes, what it refuses and in which words, alone and in bulk.

All tests share one outbox: refused input changes nothing, and each looks for its own messages.

Proves: M3 M5 V1 V16, and that bad input gets a clear error and changes nothing.
"""
import base64
import json

import psycopg
import pytest

from support import database
from support.roles import error_of, people

LIMITS = {"topic": 255, "namespace": 63, "key": 512, "dedupe_key": 512, "subject": 512, "recipient": 1024,
          "correlation_id": 255}
NEEDED = ("topic", "namespace")
STATE = """SELECT (SELECT count(*) FROM outbox.message), (SELECT count(*) FROM outbox.queue), (SELECT count(*) FROM outbox.dedupe),
                  (SELECT count(*) FROM outbox.stream), (SELECT count(*) FROM outbox.lane)"""


class Ways:
    """The same message by each of the three functions: a statement and its parameters."""

    @staticmethod
    def enqueue(**fields):
        fields = {"topic": "t", "payload": "1", **fields}
        return ("SELECT id, created, seq FROM outbox.enqueue(%s)" % ", ".join(
            "%s => %%s%s" % (name, "::jsonb" if name in ("payload", "headers") else "") for name in fields),
                list(fields.values()))

    @staticmethod
    def enqueue_bytes(**fields):
        fields = {"topic": "t", **fields}
        payload = fields.pop("payload", "1")
        fields["payload"] = payload.encode() if isinstance(payload, str) else payload
        return ("SELECT id, created, seq FROM outbox.enqueue_bytes(%s)" % ", ".join(
            "%s => %%s%s" % (name, {"headers": "::jsonb", "payload": "::bytea"}.get(name, "")) for name in fields),
                list(fields.values()))

    @staticmethod
    def enqueue_many(**fields):
        """As the second of three."""
        message = {"topic": "t", "payload": "1", **fields}
        for name in ("payload", "headers"):
            if message.get(name) is not None:
                message[name] = json.loads(message[name])
        good = {"topic": "good", "payload": 0, "key": "good"}
        return ("SELECT id, created, seq FROM outbox.enqueue_many(%s::jsonb) WHERE ord = 2",
                [json.dumps([good, message, good])])


WAYS = ["enqueue", "enqueue_bytes", "enqueue_many"]


@pytest.fixture(params=WAYS)
def way(request):
    return getattr(Ways, request.param)


@pytest.fixture(scope="module")
def db(pg_server, pg_template):
    db = database.create_database(pg_server, "producers_input", pg_template.name)
    yield db
    database.drop_database(db)


@pytest.fixture(scope="module")
def look(db):
    """A superuser's eye on the tables."""
    with db.connect(autocommit=True) as conn:
        yield lambda text, *params: conn.execute(text, params or None).fetchall()


@pytest.fixture
def conn(db):
    with people(db).connect("producer", autocommit=True) as conn:
        yield conn


def refuses(look, conn, statement, code, words=(), hint=()):
    """Refused with this code and these words, and nothing has changed."""
    before = look(STATE)
    error = error_of(conn, *statement)
    assert error.sqlstate == code, (error.sqlstate, error.message_primary)
    for word in ([words] if isinstance(words, str) else words):
        assert word in error.message_primary, error.message_primary
    for word in ([hint] if isinstance(hint, str) else hint):
        assert word in (error.message_hint or ""), error.message_hint
    if "enqueue_many" in statement[0]:
        assert error.message_primary.startswith("message 2: "), error.message_primary
    assert look(STATE) == before
    return error


# ---- texts -----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", LIMITS)
def test_lengths(look, conn, way, name):
    """M3 V16: each field has a limit in bytes, which the error names; up to it a message goes; empty is not a value."""
    most = LIMITS[name]
    for good in ("x" * most, "é" * (most // 2)):
        message = conn.execute(*way(**{name: good})).fetchone()[0]
        assert look("SELECT %s FROM outbox.messages WHERE id = %%s" % name, message) == [(good,)]
    for bad in ("x" * (most + 1), "é" * (most // 2 + 1), "x" * 100000):
        refuses(look, conn, way(**{name: bad}), "OB001", ['"%s"' % name, str(len(bad.encode()))],
                "1 to %d bytes" % most)
    refuses(look, conn, way(**{name: ""}), "OB001", ['"%s"' % name, "0 bytes"], "1 to %d bytes" % most)


@pytest.mark.parametrize("name", LIMITS)
def test_control_characters(look, conn, way, name):
    """Bad input: line breaks and their kind are refused in every text."""
    for character in "\n\t\r\x01\x1f\x7f\x85":
        refuses(look, conn, way(**{name: "a%sb" % character}), "OB001", '"%s"' % name, "control")


@pytest.mark.parametrize("name", NEEDED)
@pytest.mark.parametrize("bad", ["a b", "a*", "?", "a\u2003b"])
def test_topics_and_namespaces_are_patternless(look, conn, way, name, bad):
    """Bad input: no spaces and no wildcards where routes go by name."""
    refuses(look, conn, way(**{name: bad}), "OB001", '"%s"' % name, "spaces")


def test_what_is_missing(look, conn):
    """Bad input: a topic and a payload are needed; JSON's null is a payload, in bulk too; SQL's is none."""
    for way in (Ways.enqueue, Ways.enqueue_bytes, Ways.enqueue_many):
        refuses(look, conn, way(topic=None), "OB001", '"topic" is missing', "1 to 255")
    for way in (Ways.enqueue, Ways.enqueue_bytes):
        refuses(look, conn, way(payload=None), "OB001", '"payload" is missing', "payload")
        refuses(look, conn, way(namespace=None), "OB001", '"namespace" is missing')
    for statement in (Ways.enqueue(payload="null"), Ways.enqueue_many(payload="null"), Ways.enqueue_bytes(payload="")):
        message = conn.execute(*statement).fetchone()[0]
        assert look("SELECT coalesce(payload, 'null'), coalesce(body, '') FROM outbox.message WHERE id = %s",
                    message) == [(None, b"")]
    refuses(look, conn, ("SELECT outbox.enqueue_bytes('t', 'x', NULL)",), "OB001", '"content_type"')
    without = json.dumps([{"topic": "t", "payload": 1}, {"topic": "t"}])
    refuses(look, conn, ("SELECT outbox.enqueue_many(%s)", [without]), "OB001", '"payload" is missing')


@pytest.mark.parametrize("name", [n for n in LIMITS if n not in NEEDED])
def test_texts_of_all_the_world(look, conn, way, name):
    """V16 M3: whatever has no control characters goes through as it is."""
    text = "Grüße 你好 🙂 ' \" \\ %s {} $1 &amp; ﷽ e\u0301 \u202e"
    message = conn.execute(*way(**{name: text})).fetchone()[0]
    assert look("SELECT %s FROM outbox.messages WHERE id = %%s" % name, message) == [(text,)]


# ---- encodings -------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("bad", [b"\xff", b"a\xc3", b"\xed\xa0\x80", b"\xf8\x88\x80\x80\x80", b"\xc0\xaf"])
def test_invalid_utf8(look, conn, bad):
    """Bad input: refused by the server in any text and in JSON, before anything is done; as bytes it is content."""
    before = look(STATE)
    raw = conn.pgconn
    for statement, params in [
            (b"SELECT outbox.enqueue($1, '1')", [bad]), (b"SELECT outbox.enqueue('t', $1::jsonb)", [b'"' + bad + b'"']),
            (b"SELECT outbox.enqueue('t', '1', key => $1)", [bad]), (b"SELECT outbox.enqueue_many($1::jsonb)",
                                                                     [b'[{"topic": "t", "payload": "' + bad + b'"}]'])]:
        result = raw.exec_params(statement, params)
        assert result.error_field(psycopg.pq.DiagnosticField.SQLSTATE) == b"22021"
    assert look(STATE) == before
    message = conn.execute("SELECT id FROM outbox.enqueue_bytes('t', %s)", (bad + b"\x00",)).fetchone()[0]
    many = json.dumps([{"topic": "t", "payload_base64": base64.b64encode(bad).decode(), "content_type": "a/b"}])
    assert conn.execute("SELECT created FROM outbox.enqueue_many(%s)", (many,)).fetchone() == (True,)
    assert look("SELECT body FROM outbox.messages WHERE id = %s", message) == [(bad + b"\x00",)]


def test_nul(look, conn):
    """Bad input: \\u0000 is no character of PostgreSQL's: refused in JSON; chr(0) is refused; as bytes it is
    content."""
    before = look(STATE)
    for statement in ("SELECT outbox.enqueue('t', '\"a\\u0000b\"')", "SELECT outbox.enqueue('t', '{\"a\\u0000\": 1}')",
                      "SELECT outbox.enqueue('t', '1', headers => '{\"h\": \"\\u0000\"}')",
                      "SELECT outbox.enqueue_many('[{\"topic\": \"a\\u0000\", \"payload\": 1}]')"):
        assert error_of(conn, statement).sqlstate == "22P05", statement
    assert error_of(conn, "SELECT outbox.enqueue('a' || chr(0), '1')").sqlstate == "54000"
    assert look(STATE) == before
    assert conn.execute("SELECT created FROM outbox.enqueue_bytes('t', '\\x00'::bytea)").fetchone() == (True,)


def test_lone_surrogates(look, conn):
    """Bad input: half a character in JSON."""
    assert error_of(conn, "SELECT outbox.enqueue('t', '\"\\ud800\"')").sqlstate in ("22P05", "22P02")


# ---- sizes -----------------------------------------------------------------------------------------------------------


def test_payload_limit(look, conn, way):
    """Bad input: 1 MiB by default, counted as PostgreSQL prints the JSON; the error names both numbers and the way
    out."""
    most = 1 << 20
    assert conn.execute(*way(payload='"%s"' % ("x" * (most - 2)))).fetchone()[1] is True
    refuses(look, conn, way(payload='"%s"' % ("x" * (most - 1))), "OB006", [str(most + 1), "bytes"],
            [str(most), "max_payload"])
    look("SELECT outbox.configure('small', 'max_payload', '100')")
    refuses(look, conn, way(payload='"%s"' % ("x" * 99), namespace="small"), "OB006", "101 bytes", "100 bytes at most")
    assert conn.execute(*way(payload='"%s"' % ("x" * 98), namespace="small")).fetchone()[1] is True
    assert conn.execute(*way(payload='"%s"' % ("x" * 99), namespace="other")).fetchone()[1] is True


@pytest.mark.parametrize("headers, word", [
    ('{"a b": "x"}', "a b"), ('{"": "x"}', "header name"), ('{"a:": "x"}', "a:"), ('{"é": "x"}', "header name"),
    ('{"a\\nb": "x"}', "header name"), ('{"%s": "x"}' % ("a" * 129), "header name"), ('{"a": 1}', "number"),
    ('{"a": null}', "null"),
    ('{"a": {"b": 1}}', "object"), ('{"a": ["b"]}', "array"), ('{"a": "x\\ny"}', "control"), ('["a"]', "array"),
    ('"a"', "string"),
    ("1", "number")])
def test_headers(look, conn, way, headers, word):
    """Bad input: a JSON object of strings with names as HTTP has them."""
    error = refuses(look, conn, way(headers=headers), "OB001", word)
    assert error.message_hint


def test_header_sizes(look, conn, way):
    """Bad input: 16384 bytes of names and values at most."""
    fits = {"a": "x" * (16384 - len("a"))}
    assert conn.execute(*way(headers=json.dumps(fits))).fetchone()[1] is True
    refuses(look, conn, way(headers=json.dumps({"a": fits["a"] + "x"})), "OB006", "16385", "16384")


@pytest.mark.parametrize("name, bad, hint",
                         [("priority", -1, "0 to 9"), ("priority", 10, "0 to 9"), ("max_attempts", 0, "1 to 1000"),
                                             ("max_attempts", -5, "1 to 1000"), ("max_attempts", 1001, "1 to 1000"),
                                             ("priority", 2147483647, "0 to 9")])
def test_numbers(look, conn, way, name, bad, hint):
    """Bad input: numbers out of their range, which is named."""
    refuses(look, conn, way(**{name: bad}), "OB001", [name, str(bad)], hint)


# ---- bulk ------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("what", ["null", "1", '"x"', "{}", '{"topic": "t", "payload": 1}', "[1]", "[null]", '[{"topic": "t", "payload": 1}, []]'])
def test_bulk_is_an_array_of_objects(look, conn, what):
    """Bad input."""
    before = look(STATE)
    error = error_of(conn, "SELECT outbox.enqueue_many(%s::jsonb)", (what,))
    assert error.sqlstate == "OB001" and "array of objects" in error.message_primary and "[{" in error.message_hint
    assert look(STATE) == before


def test_bulk_of_nothing(look, conn):
    """M1: nothing in, nothing out; SQL's null is refused."""
    assert conn.execute("SELECT * FROM outbox.enqueue_many('[]')").fetchall() == []
    assert error_of(conn, "SELECT outbox.enqueue_many(NULL)").sqlstate == "OB001"


def test_bulk_has_a_limit(look, conn):
    """Bad input: 10000 a call, said in the error."""
    error = error_of(conn, "SELECT outbox.enqueue_many(jsonb_agg(jsonb_build_object('topic', 't', 'payload', n))) FROM "
                           "generate_series(1, 10001) n")
    assert error.sqlstate == "OB001" and "10001" in error.message_primary and "10000" in error.message_hint


@pytest.mark.parametrize("field, value, word", [
    ("tenant_id", "no uuid", "no uuid"), ("priority", "high", "high"), ("deliver_after", "soon", "soon"),
    ("expires_at", "", "timestamp"),
    ("payload_base64", "%%%", "base64"), ("topics", "t", "topics"), ("payload_base64", "AA==", "payload_base64"),
    ("content_type", "a/b", "content_type"), ("max_attempts", 3.5, "3.5"), ("priority", 99999999999, "99999999999"),
    ("tenant_id", {"a": 1}, "uuid")])
def test_bulk_says_which_message(look, conn, field, value, word):
    """Bad input: all or nothing, and the error says which message and why; so does one in the middle of hundreds."""
    refuses(look, conn, Ways.enqueue_many(**{field: value}), "OB001", word)
    many = [{"topic": "t", "payload": n, "key": "k%d" % n, "dedupe_key": "d%d" % n} for n in range(300)]
    many[233][field] = value
    before = look(STATE)
    error = error_of(conn, "SELECT outbox.enqueue_many(%s)", (json.dumps(many),))
    assert error.sqlstate == "OB001" and error.message_primary.startswith("message 234: "), error.message_primary
    assert look(STATE) == before


def test_bulk_says_which_tenant_and_key(look, conn):
    """M5 V1: positions in these errors too."""
    tenant, other = "11111111-1111-4111-8111-111111111111", "22222222-2222-4222-8222-222222222222"
    refuses(look, conn, Ways.enqueue_many(tenant_id=tenant, dedupe_key="x"), "OB003", "does not begin")
    look("SELECT outbox.configure('free', 'tenant_prefix', 'off')")
    look("SELECT outbox.enqueue('t', '1', dedupe_key => 'x', tenant_id => %s, namespace => 'free')", other)
    refuses(look, conn, Ways.enqueue_many(tenant_id=tenant, dedupe_key="x", namespace="free"), "OB003",
            "another tenant")
    conn.execute("SELECT set_config('app.current_tenant_id', %s, false)", (other,))
    refuses(look, conn, Ways.enqueue_many(tenant_id=tenant), "OB002", tenant)
