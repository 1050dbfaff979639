"""Producers: one call in their own transaction, alone and in bulk, and side by side with others.

Proves: M1 M2 M3 M4 S2 S4 S18 N2, and when a producer can meet 40P01 or 40001.
"""
import base64
import json
import threading
import time

import psycopg
import pytest

from support.roles import error_of, people


@pytest.fixture
def conn(db):
    with people(db).connect("producer", autocommit=True) as conn:
        yield conn


def waits(db, conn):
    """Returns when the other connection waits for a lock."""
    deadline = time.monotonic() + 30
    while not db.sql("SELECT 1 FROM pg_locks WHERE pid = %s AND NOT granted", conn.info.backend_pid):
        assert time.monotonic() < deadline, "it does not wait"


def beside(work):
    """Runs a function on a thread; the thread's `outcome` is its value, or the exception."""
    def run():
        try:
            thread.outcome = work()
        except Exception as error:
            thread.outcome = error
    thread = threading.Thread(target=run, daemon=True)
    thread.start()
    return thread


def end_of(thread):
    thread.join(60)
    assert not thread.is_alive(), "it hangs"
    return thread.outcome


# ---- bulk ------------------------------------------------------------------------------------------------------------


def test_bulk_is_all_or_nothing_in_a_transaction(db, conn):
    """M1 S18: after a refused call in a savepoint, the transaction goes on, and no number was spent."""
    with conn.transaction():
        first = conn.execute("SELECT seq FROM outbox.enqueue('t', '1', key => 'k')").fetchone()
        many = json.dumps([{"topic": "t", "payload": 1, "key": "k"}] * 5 + [{"topic": "t", "payload": 1, "priority": 77}])
        error_of(conn, "SELECT outbox.enqueue_many(%s)", (many,))
        second = conn.execute("SELECT seq FROM outbox.enqueue('t', '1', key => 'k')").fetchone()
    assert (first, second) == ((1,), (2,))


def test_bulk_keeps_order_and_numbers(db, conn):
    """S2 N2 M4: the numbers of a key follow the array; a dedupe key given twice is one message, and spends none."""
    many = [{"topic": "t", "payload": n, "key": "k%d" % (n % 3)} for n in range(30)]
    many[10]["dedupe_key"] = many[13]["dedupe_key"] = many[20]["dedupe_key"] = "same"
    rows = conn.execute("SELECT ord, id, created, seq FROM outbox.enqueue_many(%s) ORDER BY ord",
                        (json.dumps(many),)).fetchall()
    assert [row[0] for row in rows] == list(range(1, 31))
    assert [row[0] - 1 for row in rows if not row[2]] == [13, 20]
    assert rows[13][1:] == (rows[10][1], False, rows[10][3]) and rows[20][1:] == (rows[10][1], False, rows[10][3])
    for key in range(3):
        seqs = [row[3] for n, row in enumerate(rows) if n % 3 == key and row[2]]
        assert seqs == list(range(1, len(seqs) + 1))
    again = conn.execute("SELECT ord, id, created, seq FROM outbox.enqueue_many(%s) ORDER BY ord",
                         (json.dumps(many[10:11]),)).fetchall()
    assert again == [(1, rows[10][1], False, rows[10][3])]
    order = {}
    while True:
        got = db.sql("SELECT c.key, c.payload FROM outbox.claim('w', 50, run => 5) c, LATERAL outbox.ack(ARRAY[c.id], "
                     "ARRAY[c.token])")
        if not got:
            break
        for key, payload in got:
            order.setdefault(key, []).append(payload)
    assert order == {"k%d" % key: [n for n in range(30) if n % 3 == key and n not in (13, 20)] for key in range(3)}


def test_bulk_mixes_everything(db, conn):
    """M2 M3: topics, namespaces, bytes, tenants and times in one call."""
    tenant = "11111111-1111-4111-8111-111111111111"
    many = [{"topic": "a", "payload": {"x": [1, None]}, "headers": {"h": "v"}, "priority": 9, "recipient": "r", "correlation_id": "c"},
            {"topic": "b", "namespace": "n", "payload_base64": base64.b64encode(b"\x00\xff").decode(),
             "content_type": "a/b"},
            {"topic": "a", "tenant_id": tenant, "payload": "z", "dedupe_key": tenant + "/1", "subject": "s",
             "max_attempts": 2,
             "deliver_after": "2100-01-01T00:00:00Z", "expires_at": "2100-01-02T00:00:00Z"}]
    conn.execute("SELECT outbox.enqueue_many(%s)", (json.dumps(many),))
    rows = db.sql("SELECT namespace, topic, payload, body, content_type, headers, priority, max_attempts, "
                  "tenant_id::text, subject, next_attempt_at > now() + interval '1 year', expires_at IS NOT NULL FROM "
                  "outbox.messages ORDER BY namespace, topic, priority DESC")
    assert rows == [("default", "a", {"x": [1, None]}, None, None, {"h": "v"}, 9, 15, None, None, False, False),
                    ("default", "a", "z", None, None, None, 4, 2, tenant, "s", True, True),
                    ("n", "b", None, b"\x00\xff", "a/b", None, 4, 15, None, None, False, False)]


# ---- side by side ----------------------------------------------------------------------------------------------------

ENQUEUE = "SELECT id, created, seq FROM outbox.enqueue('t', '1', key => %s, dedupe_key => %s)"


@pytest.mark.parametrize("first_commits", [True, False])
def test_two_race_for_a_dedupe_key(db, first_commits):
    """M4 S4 S18: the second waits for the first. It gets the first's message, or, when that rolled back, its own; no
    number is lost either way."""
    with db.connect() as one, db.connect() as two:
        first = one.execute(ENQUEUE, ("k", "d")).fetchone()
        thread = beside(lambda: two.execute(ENQUEUE, ("k", "d")).fetchone())
        waits(db, two)
        one.commit() if first_commits else one.rollback()
        second = end_of(thread)
        two.commit()
    assert first[1:] == (True, 1)
    assert second == ((first[0], False, 1) if first_commits else (second[0], True, 1))
    assert db.sql("SELECT count(*), count(DISTINCT id) FROM outbox.messages") == [(1, 1)]
    assert db.sql(ENQUEUE, "k", "other")[0][2] == 2


def test_40001_under_repeatable_read(db):
    """M4: a dedupe key, or a key, that another transaction took since the snapshot: run the whole transaction again."""
    db.sql(ENQUEUE, "k", "d0")
    for key, dedupe in (("other", "d1"), ("k", "d2")):
        with db.connect() as conn:
            conn.isolation_level = psycopg.IsolationLevel.REPEATABLE_READ
            conn.execute("SELECT 1")
            db.sql(ENQUEUE, "k", "d1" if dedupe == "d1" else "d3")
            assert error_of(conn, ENQUEUE, (key, dedupe)).sqlstate == "40001"
            conn.rollback()
            assert conn.execute(ENQUEUE, (key, dedupe)).fetchone()[1] is (dedupe == "d2")
            conn.commit()


@pytest.mark.parametrize("level", list(psycopg.IsolationLevel), ids=lambda level: level.name)
def test_every_isolation_level_enqueues(db, level):
    """M1: enqueue works in whatever transaction the producer has; a rollback leaves nothing."""
    with db.connect() as conn:
        conn.isolation_level = level
        assert conn.execute(ENQUEUE, ("k", "d")).fetchone()[1:] == (True, 1)
        conn.rollback()
        assert db.sql("SELECT (SELECT count(*) FROM outbox.message), (SELECT count(*) FROM outbox.queue), (SELECT "
                      "count(*) FROM outbox.dedupe), (SELECT count(*) FROM outbox.stream)") == [(0, 0, 0, 0)]
        assert conn.execute(ENQUEUE, ("k", "d")).fetchone()[1:] == (True, 1)
        conn.commit()
    assert db.sql("SELECT count(*) FROM outbox.claim('w')") == [(1,)]


def test_two_keys_in_opposite_order_deadlock(db):
    """S2 N2: a key is locked until commit, so two producers that take two keys in opposite order meet 40P01: one of
    them. It runs its transaction again and loses nothing."""
    with db.connect() as one, db.connect() as two:
        one.execute("SET deadlock_timeout = '50ms'")
        one.execute(ENQUEUE, ("a", None))
        two.execute(ENQUEUE, ("b", None))
        thread = beside(lambda: two.execute(ENQUEUE, ("a", None)).fetchone()[2])
        waits(db, two)
        try:
            one.execute(ENQUEUE, ("b", None))
            mine = None
            one.commit()
        except psycopg.errors.DeadlockDetected as error:
            mine = error
            one.rollback()
        theirs = end_of(thread)
        assert [isinstance(end, psycopg.errors.DeadlockDetected) for end in (mine, theirs)].count(True) == 1
        loser, winner = (one, two) if mine else (two, one)
        winner.commit()
        loser.rollback()
        with loser.transaction():
            assert [loser.execute(ENQUEUE, (key, None)).fetchone()[2] for key in ("a", "b")] == [2, 2]


def test_bulk_never_deadlocks_with_its_like(db):
    """S2 N2 M4: enqueue_many locks in an order of its own, first all dedupe keys, then all keys: whichever way round
    many producers name them, none meets 40P01, and the numbers have no gap."""
    rounds, crowd = 15, 4
    keys = ["key %d" % n for n in range(8)]

    def produce(number):
        done = 0
        with db.connect(autocommit=True) as conn:
            for turn in range(rounds):
                names = keys[number:] + keys[:number]
                if number % 2:
                    names.reverse()
                many = [{"topic": "t", "payload": turn, "key": key, "dedupe_key": "%s/%d" % (key, turn)} for key in names]
                many += [{"topic": "t", "payload": turn, "key": key} for key in reversed(names)]
                rows = conn.execute("SELECT created FROM outbox.enqueue_many(%s)", (json.dumps(many),)).fetchall()
                done += sum(created for created, in rows)
        return done

    threads = [beside(lambda number=number: produce(number)) for number in range(crowd)]
    created = [end_of(thread) for thread in threads]
    assert not [error for error in created if isinstance(error, Exception)], created
    # Of each dedupe key one, and all without.
    assert sum(created) == rounds * len(keys) + crowd * rounds * len(keys)
    assert db.sql("SELECT key, count(*), min(seq), max(seq), count(DISTINCT seq) FROM outbox.messages GROUP BY key") \
        != [] == db.sql("SELECT key FROM outbox.messages GROUP BY key HAVING count(*) <> max(seq) OR min(seq) <> 1 OR "
                        "count(DISTINCT seq) <> count(*)")


def test_bulk_and_plain_side_by_side(db):
    """M1: what a plain enqueue of one key does beside bulk calls needs no retry either: one lock deadlocks with
    nobody."""
    stop = threading.Event()

    def bulk(names):
        with db.connect(autocommit=True) as conn:
            while not stop.is_set():
                conn.execute("SELECT outbox.enqueue_many(%s)",
                             (json.dumps([{"topic": "t", "payload": 1, "key": name} for name in names]),))

    threads = [beside(lambda: bulk("abcd")), beside(lambda: bulk("dcba"))]
    with db.connect(autocommit=True) as conn:
        for n in range(100):
            conn.execute(ENQUEUE, ("abcd"[n % 4], None))
    stop.set()
    assert [end_of(thread) for thread in threads] == [None, None]
