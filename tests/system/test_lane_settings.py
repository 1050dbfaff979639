"""The settings that a lane's row has of its namespace: an enqueue reads that row only, so it must never be out of date.

Proves: M2 M6 S2 (what is configured applies from the next statement on), N4 (no producer waits for an operator), N14.
"""
import json
import threading
import time

import psycopg
import pytest

from support.roles import error_of

BIG = json.dumps("x" * 100)


@pytest.fixture
def conn(db):
    with db.connect(autocommit=True) as conn:
        conn.execute("SELECT outbox.configure('*', 'lane', 'log')")
        yield conn


def limit_of(conn, topic):
    """The limit that applies to a message, or None where it is large."""
    try:
        with conn.transaction(force_rollback=True):
            conn.execute("SELECT outbox.enqueue(%s, %s)", (topic, BIG))
    except psycopg.Error as error:
        assert error.sqlstate == "OB006"
        return int(error.diag.message_hint.split()[2])
    return None


def resolved(conn, topic):
    return conn.execute("SELECT DISTINCT max_payload FROM outbox.lane WHERE topic = %s", (topic,)).fetchall()


def test_each_setting_applies_at_once(conn):
    """M2: to a lane that exists, of the namespace or by default."""
    conn.execute("SELECT outbox.enqueue('t', '1')")
    conn.execute("SELECT outbox.configure('*', 'max_payload', '90')")
    assert limit_of(conn, "t") == 90
    conn.execute("SELECT outbox.configure('default', 'max_payload', '80')")
    assert limit_of(conn, "t") == 80
    conn.execute("SELECT outbox.configure('*', 'max_payload', '70')")
    assert limit_of(conn, "t") == 80
    conn.execute("SELECT outbox.configure('default', 'max_payload', null)")
    assert limit_of(conn, "t") == 70
    conn.execute("SELECT outbox.enqueue('t', '1', key => 'k'), outbox.enqueue('u', '1', key => 'k')")
    conn.execute("SELECT outbox.configure('default', 'order_scope', 'namespace')")
    conn.execute("SELECT outbox.enqueue('t', '1', key => 'k'), outbox.enqueue('u', '1', key => 'k')")
    assert conn.execute("SELECT topic, seq FROM outbox.message WHERE key = 'k' ORDER BY pos").fetchall() == [
        ("t", 1), ("u", 1), ("t", 1), ("u", 2)]


def test_a_new_topic_beside_a_configure(db, conn):
    """N4 M2: the producer does not wait, and what it leaves behind is never out of date."""
    with db.connect() as operator:
        operator.execute("SELECT outbox.configure('default', 'max_payload', '50')")
        conn.execute("SET statement_timeout = '60s'")
        conn.execute("SELECT outbox.enqueue('fresh', %s)", (BIG,))
        assert resolved(conn, "fresh") == [(None,)]
        operator.commit()
    assert limit_of(conn, "fresh") == 50
    conn.execute("SELECT outbox.enqueue('fresh', '1')")
    assert resolved(conn, "fresh") == [(50,)]


def test_a_configure_beside_a_new_topic(db, conn):
    """M2: it waits for the transaction that made the lane, and reaches it then."""
    with db.connect() as producer, db.connect(autocommit=True) as operator:
        producer.execute("SELECT outbox.enqueue('fresh', '1')")
        thread = threading.Thread(target=operator.execute, daemon=True,
                                  args=("SELECT outbox.configure('default', 'max_payload', '50')",))
        thread.start()
        deadline = time.monotonic() + 60
        while not db.sql("SELECT 1 FROM pg_locks WHERE pid = %s AND NOT granted", operator.info.backend_pid):
            assert thread.is_alive() and time.monotonic() < deadline, "it does not wait"
        producer.commit()
        thread.join(60)
    assert resolved(conn, "fresh") == [(50,)] and limit_of(conn, "fresh") == 50


@pytest.mark.parametrize("level", ["REPEATABLE READ", "SERIALIZABLE"])
def test_a_new_topic_with_an_old_snapshot(db, conn, level):
    """M2: what an old snapshot saw applies to that transaction only."""
    with db.connect() as producer:
        producer.execute("SET TRANSACTION ISOLATION LEVEL " + level)
        producer.execute("SELECT FROM outbox.namespace")
        conn.execute("SELECT outbox.configure('default', 'max_payload', '50')")
        producer.execute("SELECT outbox.enqueue('fresh', %s)", (BIG,))
        producer.commit()
    assert limit_of(conn, "fresh") == 50


def test_a_configure_with_an_old_snapshot_is_refused(db, conn):
    """M2: it would miss lanes."""
    with db.connect() as operator:
        operator.execute("SET TRANSACTION ISOLATION LEVEL REPEATABLE READ")
        assert error_of(operator, "SELECT outbox.configure('default', 'max_payload', '50')").sqlstate == "OB007"


CALLS = ["", "key => 'k'", "subject => 's', recipient => 'r', correlation_id => 'c'", "key => 'k', correlation_id => 'c'",
         "tenant_id => '11111111-1111-4111-8111-111111111111'",
         "tenant_id => '11111111-1111-4111-8111-111111111111', key => 'k'", "namespace => 'n', key => 'k'"]


@pytest.mark.parametrize("args", CALLS)
def test_the_short_way_writes_the_same(conn, args):
    """M3 N14: the first message of a topic takes the long way, the second the short one; an expiry makes the third take the long
    one again."""
    call = "SELECT * FROM outbox.enqueue('t', '{\"a\": [1, 2]}'%s)"
    more = args and ", " + args
    receipts = [conn.execute(call % each).fetchone() for each in (more, more, more + ", expires_at => '2099-01-01'")]
    rows = [row[0] for row in conn.execute("SELECT to_jsonb(m) FROM outbox.message m ORDER BY pos").fetchall()]
    assert [(str(id), True, seq) for id, _, seq in receipts] == [(row["id"], True, row["seq"]) for row in rows]
    assert [row["seq"] for row in rows] == ([1, 2, 3] if "key" in args else [None] * 3)
    assert rows[0]["ord"] < rows[1]["ord"] < rows[2]["ord"]
    for row in rows:
        for name in ("id", "created_at", "ord", "pos", "seq", "expires_at"):
            del row[name]
    assert rows[0] == rows[1] == rows[2]
    assert conn.execute("SELECT count(*) FROM outbox.queue").fetchone() == (0,)


@pytest.mark.parametrize("scope", ["topic", "namespace"])
def test_both_ways_know_a_dedupe_key(conn, scope):
    """M5: what the short way wrote the long one finds, and the other way round; an expiry makes a call take the long one."""
    conn.execute("SELECT outbox.configure('default', 'dedupe_scope', %s)", (scope,))
    conn.execute("SELECT outbox.enqueue('t', '1'), outbox.enqueue('u', '1')")
    call = "SELECT id, created FROM outbox.enqueue(%s, '1', dedupe_key => %s"
    later = ", expires_at => '2099-01-01')"
    short, created = conn.execute(call + ")", ("t", "d1")).fetchone()
    long, also = conn.execute(call + later, ("t", "d2")).fetchone()
    assert created and also
    for key, wanted in (("d1", short), ("d2", long)):
        assert conn.execute(call + ")", ("t", key)).fetchone() == (wanted, False)
        assert conn.execute(call + later, ("t", key)).fetchone() == (wanted, False)
        assert conn.execute(call + ")", ("u", key)).fetchone()[1] is (scope == "topic")
    rows = [row[0] for row in conn.execute("SELECT to_jsonb(m) - '{id,created_at,ord,pos,expires_at,dedupe_key}'::text[] FROM outbox.message m "
                                           "WHERE m.id = any(%s)", ([short, long],)).fetchall()]
    assert len(rows) == 2 and rows[0] == rows[1]


@pytest.mark.parametrize("args", ["'t', null", "'t', '1', key => ''", "'t', '1', key => E'a\\nb'", "'t', '1', namespace => null",
                                  "null, '1'", "'t', '1', correlation_id => repeat('x', 2000)", "'t', '1', priority => null"])
def test_the_short_way_refuses_the_same(conn, args):
    """M1: with the words of the long one, before and after the lane exists."""
    first = error_of(conn, "SELECT outbox.enqueue(%s)" % args)
    conn.execute("SELECT outbox.enqueue('t', '1'), outbox.enqueue('t', '1')")
    again = error_of(conn, "SELECT outbox.enqueue(%s)" % args)
    assert (first.sqlstate, first.message_primary, first.message_hint) == (again.sqlstate, again.message_primary, again.message_hint)
    assert first.sqlstate == "OB001"


def test_only_valid_names_get_a_lane(conn):
    """M1: the short way relies on it."""
    for topic in ("a b", "a*", ""):
        assert error_of(conn, "SELECT outbox.assign_doorbell('default', %s, 1)", (topic,)).sqlstate == "OB001"
    assert conn.execute("SELECT count(*) FROM outbox.lane").fetchone() == (0,)


def test_ids_grow_within_a_millisecond(conn):
    """M3 M9: version 7, variant 2, and the order of the ids is that of the calls as far as the clock tells them apart."""
    conn.execute("SELECT outbox.enqueue('t', '1')")
    conn.execute("SELECT count(outbox.enqueue('t', '1')) FROM generate_series(1, 500)")
    rows = conn.execute("SELECT id, created_at FROM outbox.message ORDER BY pos").fetchall()
    assert all(id.version == 7 and id.variant == "specified in RFC 4122" for id, _ in rows)
    assert all(int(id.hex[:12], 16) == int(at.timestamp() * 1000 + 1e-4) for id, at in rows)
    times = {}
    for id, at in rows:
        times.setdefault(at, []).append(id.hex[:16])
    assert all(len(set(heads)) == 1 for heads in times.values())
    heads = [times[at][0] for at in sorted(times)]
    assert heads == sorted(heads)
