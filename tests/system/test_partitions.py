"""Many partitions: 400 days of daily ones. Claims and settles lock those that hold their messages, and no others.

For the queue: the log is read by an index of every partition, and purge makes partitions wider so that they stay few.

Proves: M20 (a claim's cost does not grow with the past), S7 (attempts kept for years), M10.
"""
import contextlib
import uuid

import pytest

from support import database, past

from test_retention import send

DAYS = 400
FEW = 100  # of two tables and their indices in a few partitions; those of all would be thousands


@pytest.fixture(scope="module")
def many_days(pg_server, pg_template):
    db = database.create_database(pg_server, "many_days", pg_template.name)
    with db.connect(autocommit=True) as conn:
        conn.execute("SELECT outbox.configure('*', 'lane', 'queue')")
        past.purge(conn)
        conn.execute("SET ROLE outbox_owner")
        for _ in range(0, DAYS, 20):  # one transaction for all would itself need too many locks
            conn.execute("DO $$ DECLARE b timestamptz; BEGIN FOR i IN 1..20 LOOP SELECT min(start) INTO b FROM outbox.period;"
                         " PERFORM outbox.make_period(b - interval '1 day', b); END LOOP; END $$")
    yield db
    database.drop_database(db)


@pytest.fixture
def old(many_days):
    """Nothing is queued in it."""
    many_days.sql("TRUNCATE outbox.queue, outbox.dead, outbox.hook, outbox.hook_failure")
    return many_days


def locks(conn):
    return conn.execute("SELECT count(*) FROM pg_locks WHERE pid = pg_backend_pid() AND relation <> 'pg_locks'::regclass"
                        ).fetchone()[0]


def claim(conn, limit=100, **more):
    names = "".join(", %s => %%s" % name for name in more)
    return conn.execute("SELECT id, token, payload FROM outbox.claim('w', %%s%s)" % names, (limit, *more.values())).fetchall()


def settle(conn, rows, outcomes, codes=None):
    return conn.execute("SELECT id, result, dead FROM outbox.settle(%s, %s, %s, %s)",
                        ([r[0] for r in rows], [r[1] for r in rows], outcomes, codes)).fetchall()


def test_a_claim_locks_few_partitions(old):
    """M20: of 400 periods."""
    old.sql("SELECT count(outbox.enqueue('t', '{}')) FROM generate_series(1, 200)")
    with old.connect() as conn:
        rows = claim(conn)
        assert len(rows) == 100 and locks(conn) < FEW
        conn.commit()
        settle(conn, rows, [1] * 100)
        assert locks(conn) < FEW


def test_keys_too(old):
    """M20: a batch with runs has a plan of its own."""
    old.sql("SELECT count(outbox.enqueue('t', to_jsonb(i), key => 'k' || i % 3)) FROM generate_series(0, 29) i")
    with old.connect() as conn:
        taken = [r[2] for r in claim(conn, run=10)]
        assert locks(conn) < FEW
    assert sorted(taken) == list(range(30))
    for key in range(3):  # each is together, and in its order
        first = taken.index(key)
        assert taken[first:first + 10] == list(range(key, 30, 3))


def test_every_outcome(old):
    """M20 S7: put off, dead, expired, lost: all of them look for messages or attempts by id."""
    old.sql("CREATE OR REPLACE FUNCTION public.seen(events jsonb) RETURNS void LANGUAGE plpgsql SECURITY DEFINER SET search_path "
            "= pg_catalog, pg_temp AS 'BEGIN END'")
    old.sql("SELECT outbox.hook('public.seen(jsonb)')")
    outcomes = [1, 2, 3, 5, 6, 7, 8, 9, 10]
    for n in outcomes:
        send(old, n)
    send(old, "expires", expires_at="2099-01-01")
    with old.connect() as conn:
        for _ in range(2):  # the second time, some are put off as they were before
            rows = claim(conn)
            conn.commit()
            how = [int(r[2]) if r[2] != "expires" else 8 for r in rows]
            done = settle(conn, rows, how, ["c"] * len(rows))
            assert all(result == "ok" for _, result, _ in done) and locks(conn) < 2 * FEW
            conn.execute("UPDATE outbox.queue SET due = now()")
            conn.commit()
        assert conn.execute("SELECT count(*) FROM outbox.attempt WHERE outcome IN (5, 6)").fetchone() == (2,)
        conn.execute("UPDATE outbox.queue q SET expires_at = now() FROM outbox.message m WHERE m.id = q.id AND payload = "
                     "'\"expires\"'")
        conn.commit()
        late = claim(conn)
        assert "expires" not in [r[2] for r in late] and locks(conn) < 2 * FEW
        conn.commit()
        stranger = uuid.uuid4()
        assert settle(conn, [(late[0][0], 99), (stranger, 1)], [1, 1]) == [(late[0][0], "lost", False),
                                                                          (stranger, "unknown", False)]
        assert locks(conn) < FEW
        conn.commit()
    assert old.sql("SELECT payload #>> '{}', reason, code FROM outbox.dead ORDER BY 1") == [
        ("3", "terminal", "c"), ("expires", "expired", "expired")]


@pytest.mark.parametrize("days", [[0, 1, 2, 390], [1, 50, 51, 200, 201, 300, 390], [30, 80, 130, 180, 230, 280, 395],
                                  list(range(0, 390, 39)), [500, 0]], ids=str)
def test_messages_of_all_times(old, days):
    """M20 M10: however far apart the messages of a batch are, it has all of them, in order; and an old one does not bring in
    what is between."""
    with old.connect(autocommit=True) as conn:
        for ago in days:
            past.age(conn, send(old, str(ago)), ago)
    with old.connect() as conn:
        rows = claim(conn)
        assert [r[2] for r in rows] == [str(ago) for ago in days]
        if len(days) <= 7 and 500 not in days:
            assert locks(conn) < FEW
        conn.commit()
        assert [r[1:] for r in settle(conn, rows, [3] * len(rows))] == [("ok", True)] * len(rows)
        conn.commit()
    assert {r[0] for r in old.sql("SELECT payload #>> '{}' FROM outbox.dead")} == {str(ago) for ago in days}


def test_many_workers_do_not_fill_the_table_of_locks(old):
    """M20: 30 workers in open transactions, and max_locks_per_transaction as it comes (53200 otherwise)."""
    assert old.sql("SHOW max_locks_per_transaction") == [("64",)]
    old.sql("SELECT count(outbox.enqueue('t', '{}')) FROM generate_series(1, 300)")
    with contextlib.ExitStack() as stack:
        for _ in range(30):
            conn = stack.enter_context(old.connect())
            rows = claim(conn, 10)
            assert len(rows) == 10
            settle(conn, rows, [1] * 5 + [2, 3, 5, 6, 7])
