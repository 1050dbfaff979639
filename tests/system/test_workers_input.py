"""Workers' and operators' input: absurd limits, arrays that do not fit, ids nobody knows, tokens used twice.

Proves: M6 M10 M13 S14, and that bad input gets a clear error and changes nothing.
"""
import uuid

import pytest

from support.roles import error_of, people

NOBODY = uuid.UUID(int=7)


@pytest.fixture
def relay(db):
    with people(db).connect("relay", autocommit=True) as conn:
        yield conn


@pytest.fixture
def operator(db):
    with people(db).connect("operator", autocommit=True) as conn:
        yield conn


def state(db):
    return db.sql("SELECT (SELECT jsonb_agg(q ORDER BY id) FROM outbox.queue q), (SELECT jsonb_agg(a) FROM "
                  "outbox.attempt a), (SELECT jsonb_agg(d) FROM outbox.dead d), (SELECT count(*) FROM outbox.act), "
                  "(SELECT jsonb_agg(n) FROM outbox.namespace n)")


def refuses(db, conn, statement, params, word, hint, code="OB001"):
    before = state(db)
    error = error_of(conn, statement, params)
    assert error.sqlstate == code, (statement, error.sqlstate, error.message_primary)
    assert word in error.message_primary, error.message_primary
    assert hint in (error.message_hint or ""), error.message_hint
    assert state(db) == before


def take(db, count=1, **more):
    """Enqueues and claims; a list of (id, token)."""
    names = "".join(", %s => %%s" % name for name in more)
    for _ in range(count):
        db.sql("SELECT outbox.enqueue('t', '1'%s)" % names, *more.values())
    rows = db.sql("SELECT id, token FROM outbox.claim('w', %s)", count)
    assert len(rows) == count
    return rows


# ---- claim -----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("argument, bad, hint", [
    ("limit", [0, -1, 10001, 2147483647, None], "1 to 10000"),
    ("lease", ["0", "-1 s", "0.09 s", "86401 s", "1 year", "-1 year", None], "100 ms to 24 h"),
    ("run", [0, -1, 10001, None], "1 to 10000"),
    ("max_attempts", [0, -1, 1001], "1 to 1000"),
    ("retry_base", ["0", "-1 s", "2 days"], "1 ms to 24 h"),
    ("retry_cap", ["0", "-1 s", "25 days"], "1 ms to 24 days"),
    ("worker", ["", None, "x" * 201, "é" * 101], "1 to 200 bytes")])
def test_claim(db, relay, argument, bad, hint):
    """Bad input: the argument, its value and its range are named, and nothing is claimed."""
    db.sql("SELECT outbox.enqueue('t', '1')")
    for value in bad:
        arguments = {"worker": "w", argument: value}
        names = ", ".join('"%s" => %%s' % name for name in arguments)
        refuses(db, relay, "SELECT * FROM outbox.claim(%s)" % names, list(arguments.values()), '"%s"' % argument, hint)
    assert len(db.sql("SELECT * FROM outbox.claim('w')")) == 1


def test_claim_of_nothing(db, relay):
    """M18: unknown namespaces, topics and tenants are not errors: there is nothing to do."""
    db.sql("SELECT outbox.enqueue('t', '1')")
    for scope in ("namespace => 'nobody'", "topics => '{nothing}'", "topics => '{}'", "tenant => '%s'" % NOBODY,
                  "namespace => 'default', topics => '{other}'"):
        assert relay.execute("SELECT * FROM outbox.claim('w', %s)" % scope).fetchall() == [], scope
    assert len(relay.execute("SELECT * FROM outbox.claim('w', namespace => 'default', topics => '{x,t}')").fetchall()) == 1


def test_extremes_that_are_fine(db, relay):
    """Bad input: the ends of the ranges themselves work."""
    db.sql("SELECT outbox.enqueue('t', '1')")
    rows = relay.execute("SELECT id, token FROM outbox.claim(%s, 10000, '1 day', run => 10000, max_attempts => 1000, "
                         "retry_base => '1 ms', retry_cap => '24 days')", ("w" * 200,)).fetchall()
    assert len(rows) == 1
    assert relay.execute("SELECT result FROM outbox.extend(%s, %s, '0.1 s')",
                         ([rows[0][0]], [rows[0][1]])).fetchone() == ("ok",)


# ---- settle ----------------------------------------------------------------------------------------------------------

WAYS = {
    "settle": "SELECT ord, id, result FROM outbox.settle(%s, %s, array_fill(1, ARRAY[coalesce(cardinality(%s::uuid[]), "
              "0)]))",
    "ack": "SELECT 1, id, result FROM outbox.ack(%s, %s)",
    "nack": "SELECT 1, id, result FROM outbox.nack(%s, %s, NULL)",
    "release": "SELECT 1, id, result FROM outbox.release(%s, %s)",
    "extend": "SELECT ord, id, result FROM outbox.extend(%s, %s)",
}


@pytest.fixture(params=WAYS)
def way(request):
    statement = WAYS[request.param]
    return lambda conn, ids, tokens: conn.execute(statement,
                                                  (ids,
                                                   tokens) + ((ids,) if statement.count("%s") == 3 else ())).fetchall()


@pytest.mark.parametrize("name", WAYS)
def test_arrays_that_do_not_fit(db, relay, name):
    """Bad input: different lengths, or none at all, change nothing."""
    (message, token), = take(db)
    for ids, tokens in (([message], []), ([], [token]), ([message], [token, 2]), ([message, NOBODY], [token]),
                        (None, [token]),
                        ([message], None), (None, None), ([message] * 10001, [token] * 10001)):
        params = (ids, tokens) + ((ids,) if WAYS[name].count("%s") == 3 else ())
        refuses(db, relay, WAYS[name], params, "lengths", "per ")


@pytest.mark.parametrize("argument", ["codes", "errors", "refs", "outputs", "delays", "latencies", "places"])
def test_optional_arrays_that_do_not_fit(db, relay, argument):
    """Bad input: optional arrays are as long as the others, or null."""
    (message, token), = take(db)
    kind = {"outputs": "jsonb", "delays": "bigint", "latencies": "bigint", "places": "tid"}.get(argument, "text")
    for array in ("'{}'::%s[]" % kind, "array_fill(NULL::%s, '{2}')" % kind):
        refuses(db, relay, "SELECT * FROM outbox.settle(%%s, %%s, '{1}', %s => %s)" % (argument, array),
                ([message], [token]),
                "lengths", "per message")
    assert relay.execute("SELECT result FROM outbox.settle(%%s, %%s, '{1}', %s => array_fill(NULL::%s, '{1}'))" % (argument, kind),
                         ([message], [token])).fetchone() == ("ok",)


def test_nothing_to_settle(relay, way):
    """M6: empty arrays are no error."""
    assert way(relay, [], []) == []


def test_unknown_messages(relay, way):
    """Bad input: an unknown id is said to be unknown, in its place."""
    assert [row[2] for row in way(relay, [NOBODY, uuid.uuid4()], [1, 5])] == ["unknown", "unknown"]


@pytest.mark.parametrize("token", [0, -1, 2, 4294967297, 9223372036854775807, None])
def test_wrong_tokens(db, relay, way, token):
    """M10: a token that is not the lease's changes nothing, however near it is; 2^32 + 1 is not 1."""
    (message, _), = take(db)
    before = state(db)
    assert [row[2] for row in way(relay, [message], [token])] == ["lost"]
    assert state(db) == before


def test_a_token_used_twice(db, relay):
    """M10 M13: the second time it is lost, after whichever outcome; the first outcome stands."""
    for outcome in (1, 2, 3, 5, 6, 7, 8, 9, 10):
        (message, token), = take(db)
        settle = "SELECT result FROM outbox.settle(%s, %s, %s, delays => '{3600000000}')"
        assert relay.execute(settle, ([message], [token], [outcome])).fetchone() == ("ok",)
        for again in (1, 2, 3, 8):
            before = state(db)
            assert relay.execute(settle, ([message], [token], [again])).fetchone() == ("lost",)
            assert state(db) == before


def test_a_message_twice_in_one_call(db, relay):
    """M10 S6: a token works once: the first counts, the other is lost; with two tokens, the lease's own counts,
    whichever comes first."""
    (message, token), = take(db)
    rows = relay.execute("SELECT ord, result FROM outbox.settle(%s, %s, '{1,2,1}')",
                         ([message] * 3, [token] * 3)).fetchall()
    assert rows == [(1, "ok"), (2, "lost"), (3, "lost")]
    assert db.sql("SELECT attempt_no, outcome FROM outbox.attempts") == [(1, "delivered")]
    for order in (1, -1):
        (message, token), = take(db)
        db.sql("UPDATE outbox.queue SET until = now() - interval '1 s'")
        again = db.sql("SELECT id, token FROM outbox.claim('w')")
        assert again == [(message, token + 1)]
        tokens = [token, token + 1][::order]
        rows = relay.execute("SELECT ord, result FROM outbox.settle(%s, %s, '{1,1}')",
                             ([message] * 2, tokens)).fetchall()
        assert [result for _, result in rows] == ["lost", "ok"][::order]
        assert db.sql("SELECT outcome FROM outbox.attempts WHERE message_id = %s ORDER BY attempt_no",
                      message) == [("lost",), ("delivered",)]


@pytest.mark.parametrize("outcome", [0, 4, 11, -1, 100, None])
def test_outcomes_that_are_none(db, relay, outcome):
    """Bad input: an unknown outcome in the middle of others refuses all of them. 4, lost, is the database's to say."""
    rows = take(db, 3)
    refuses(db, relay, "SELECT * FROM outbox.settle(%s, %s, %s)",
            ([row[0] for row in rows], [row[1] for row in rows], [1, outcome, 1]),
            "outcome", "1 delivered")


def test_delays_and_latencies(db, relay):
    """Bad input: over a year is refused; a latency beyond all measure is cut, not an error that loses the outcome."""
    rows = take(db, 4)
    ids, tokens = [row[0] for row in rows], [row[1] for row in rows]
    refuses(db, relay, "SELECT * FROM outbox.settle(%s, %s, '{2,2,2,2}', delays => %s)",
            (ids, tokens, [1, 31536000000001, -1, None]),
            "too long", "microseconds")
    refuses(db, relay, "SELECT * FROM outbox.nack(%s, %s, NULL, delays => '{1 s,1 s,367 days,1 s}'::interval[])",
            (ids, tokens), "too long", "")
    rows = relay.execute("SELECT result FROM outbox.settle(%s, %s, '{1,2,1,1}', latencies => %s)",
                         (ids, tokens, [9223372036854775807, 9223372036854775807, -5, None])).fetchall()
    assert rows == [("ok",)] * 4
    assert db.sql("SELECT max(latency_ms) FROM outbox.attempts") == [(2147483647,)]


def test_texts_of_sinks(db, relay):
    """S7: whatever a sink says can be recorded: empty, with line breaks, very long; errors are cut at 4000 characters,
    codes and references at 1000, so that no outcome is lost over its words."""
    rows = take(db, 2)
    long = "é" * 100000
    done = relay.execute("SELECT result FROM outbox.settle(%s, %s, '{3,1}', %s, %s, %s)",
                         ([row[0] for row in rows], [row[1] for row in rows], [long, ""], [long, "a\nb\x01"],
                          [long, "r\n"])).fetchall()
    assert done == [("ok",)] * 2
    assert db.sql("SELECT length(code), length(error), length(reference) FROM outbox.attempts ORDER BY outcome") \
        == [(0, None, 2), (1000, 4000, 1000)]
    assert db.sql("SELECT length(code), length(error) FROM outbox.dead_letters") == [(1000, 4000)]


@pytest.mark.parametrize("level", ["REPEATABLE READ", "SERIALIZABLE"])
def test_isolation_levels(db, relay, level):
    """S8 N2: claims and settles need to see what others committed: refused, with the way out, before anything is
    done."""
    (message, token), = take(db)
    db.sql("SELECT outbox.enqueue('t', '1')")
    before = state(db)
    for statement, params in [("SELECT * FROM outbox.claim('w')", ()),
                              ("SELECT * FROM outbox.ack(%s, %s)", ([message], [token])),
                              ("SELECT * FROM outbox.extend(%s, %s)", ([message], [token])),
                              ("SELECT * FROM outbox.release(%s, %s)", ([message], [token])),
                              ("SELECT * FROM outbox.nack(%s, %s, '{no}')", ([message], [token]))]:
        relay.execute("BEGIN ISOLATION LEVEL " + level)
        error = error_of(relay, statement, params)
        relay.execute("ROLLBACK")
        assert error.sqlstate == "OB007" and level in error.message_primary and "READ COMMITTED" in error.message_hint
    assert state(db) == before


# ---- operators -------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("call", ["retry", "discard"])
def test_retry_and_discard(db, operator, call):
    """Bad input: an act on everything must say so; unknown ids are none; counts have a range."""
    take(db, 1)
    db.sql("SELECT outbox.settle(array_agg(id), array_agg(attempts::bigint), '{3}') FROM outbox.queue")
    refuses(db, operator, "SELECT outbox.%s()" % call, (), "no dead letters selected", "before => now()")
    refuses(db, operator, "SELECT outbox.%s(actor => 'me', reason => 'why')" % call, (), "no dead letters selected", "ids")
    for count in (0, -1, 1000001, None):
        refuses(db, operator, "SELECT outbox.%s(topic => 't', max_count => %%s)" % call, (count,), "max_count",
                "1 to 1000000")
    for nothing in ("ids => '{}'", "ids => '{%s}'" % NOBODY, "namespace => 'other'", "code => 'x'",
                    "before => '2001-01-01'",
                    "tenant => '%s'" % NOBODY, "topic => 't', namespace => 'other'"):
        assert operator.execute("SELECT outbox.%s(%s)" % (call, nothing)).fetchone() == (0,), nothing
    assert operator.execute("SELECT outbox.%s(before => now() + interval '1 s')" % call).fetchone() == (1,)


@pytest.mark.parametrize("name, bad, hint", [
    ("max_payload", ["0", "-1", "268435457", "x", "", "1e3x"], "1 to 268435456"),
    ("max_attempts", ["0", "1001", "x"], "1 to 1000"),
    ("retry_base", ["0", "-1 s", "2 days", "x"], "interval"), ("retry_cap", ["0", "25 days", "x"], "interval"),
    ("dedupe_scope", ["x", "", "TOPIC"], "topic or namespace"), ("order_scope", ["x"], "topic or namespace"),
    ("on_dead", ["x", "stop"], "continue or hold"), ("tenant_prefix", ["x", ""], "on or off"),
    ("doorbell", ["perhaps"], "on or off")])
def test_configure(db, operator, name, bad, hint):
    """Bad input: what a setting takes is said; the old value stays."""
    for value in bad:
        for namespace in ("n", "*"):
            refuses(db, operator, "SELECT outbox.configure(%s, %s, %s)", (namespace, name, value), name, hint)


def test_configure_names(db, operator):
    """Bad input: unknown settings, settings of everybody for one namespace, namespaces that no message can have,
    nulls."""
    for namespace, name, value, word in [("n", "colour", "red", "colour"), ("n", None, "1", "setting"),
                                         (None, "max_attempts", "1", "namespace"),
                                         ("", "max_attempts", "1", "namespace"),
                                         ("x" * 64, "max_attempts", "1", "namespace"),
                                         ("n", "retention", "1 day", "retention"),
                                         ("*", "max_attempts", None, "max_attempts")]:
        refuses(db, operator, "SELECT outbox.configure(%s, %s, %s)", (namespace, name, value), word, "")


def test_pauses(db, operator):
    """Bad input: a topic without its namespace."""
    refuses(db, operator, "SELECT outbox.pause(topic => 't')", (), "requires its namespace", "namespace")
    assert operator.execute("SELECT outbox.resume('n')").fetchone() == (False,)
    assert [operator.execute("SELECT outbox.pause('n')").fetchone()[0] for _ in range(2)] == [True, False]
