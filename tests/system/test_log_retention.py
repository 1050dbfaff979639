"""Retention and erasure of messages that are only in the log, or in a window of it.

Proves: S1 Y7 (nothing undelivered is removed), S2 N2 (order per key), V14 Y3 (erasure).
"""
import threading
import time

import psycopg
import pytest

from support import past
from support.log import Window, send

TENANT = "0a0a0a0a-1111-4222-8333-444444444444"


@pytest.fixture
def conn(db):
    with db.connect(autocommit=True) as conn:
        past.purge(conn)
        conn.execute("SELECT outbox.configure('*', 'lane', 'log')")
        yield conn


def drain(conn):
    """Claims and acknowledges until nothing is left; what came, in order."""
    seen = []
    while True:
        rows = conn.execute("SELECT id, token FROM outbox.claim('c', 100, run => 100)").fetchall()
        if not rows:
            return seen
        conn.execute("SELECT outbox.ack(%s, %s)", ([row[0] for row in rows], [row[1] for row in rows]))
        seen += [row[0] for row in rows]


def drop_partitions(conn):
    """As if nobody had run purge for long."""
    for suffix, in conn.execute("SELECT suffix FROM outbox.period").fetchall():
        for parent in ("message", "attempt"):
            conn.execute("DROP TABLE outbox.%s_%s" % (parent, suffix))
    conn.execute("DELETE FROM outbox.period")


def test_what_waits_in_the_log_outlives_its_partition(conn):
    """S1 Y7 S2: purge puts it into the queue, with all before it; it is delivered in order."""
    past.make_period(conn, 30)
    ids = [past.age(conn, send(conn, **more), 30) for more in ({}, {"key": "k"}, {"key": "k"})]
    late = send(conn, key="k")
    steps = [step[0] for step in past.purge(conn)]
    assert steps.count("keep") >= 1 and "empty" in steps and "drop" in steps
    assert {row[0] for row in conn.execute("SELECT id FROM outbox.queued WHERE status = 'pending'")} == {*ids, late}
    seen = drain(conn)
    assert sorted(seen) == sorted([*ids, late]) and [i for i in seen if i != ids[0]] == [*ids[1:], late]


@pytest.mark.parametrize("more", [{}, {"key": "k"}])
def test_a_partition_waits_for_open_windows(conn, more):
    """S1 Y7: the window's messages are read again if its worker does not come back."""
    past.make_period(conn, 30)
    ids = [past.age(conn, send(conn, **more), 30) for _ in range(3)]
    window = Window(conn)
    assert window.ids == ids
    window.settle(ids[:1])
    assert past.purge(conn)[-1][0] == "wait"
    assert "message_" in past.purge(conn)[-1][1]
    assert conn.execute("SELECT count(*) FROM outbox.message").fetchone() == (3,)
    conn.execute("UPDATE outbox.log_window SET until = now(), swept = now() - interval '1 h' WHERE open")
    assert past.purge(conn)[-1][0] == "done"
    assert drain(conn) == ids[1:]


def test_an_open_transaction_in_an_old_partition(db, conn):
    """S1: purge waits for it, and then puts its message into the queue."""
    past.make_period(conn, 30)
    with db.connect() as other:
        ident = past.age(other, send(other), 30)
        assert past.purge(conn)[-1][0] == "wait"
        other.commit()
    assert past.purge(conn)[-1][0] == "done"
    assert drain(conn) == [ident]


def test_left_overs_in_the_default_partition(conn):
    """S1 Y7: old messages there go when they are settled, not before."""
    for more in ({}, {"key": "k"}):
        past.age(conn, send(conn, **more), 30)
    past.purge(conn)
    assert conn.execute("SELECT count(*) FROM outbox.messages WHERE status = 'pending'").fetchone() == (2,)
    window = Window(conn)
    past.purge(conn)
    assert conn.execute("SELECT count(*) FROM outbox.messages WHERE status = 'processing'").fetchone() == (window.size,)
    while window.ids:
        window.settle(window.ids)
        window = Window(conn)
    past.purge(conn)
    assert conn.execute("SELECT count(*) FROM outbox.message").fetchone() == (2,) # settled just now
    conn.execute("SELECT outbox.configure('*', 'retention', '0 s')")
    past.purge(conn)
    assert conn.execute("SELECT count(*) FROM outbox.message").fetchone() == (0,)


def test_the_default_partition_is_set_aside(conn):
    """S1 S2: what waits there goes to the queue first; while a window has messages of it, it stays where it is."""
    drop_partitions(conn)
    ids = [send(conn, key="k") for _ in range(4)]
    window = Window(conn, limit=2)
    assert window.ids == ids[:2]
    assert past.purge(conn)[-1][0] == "wait"
    assert [i for i, in conn.execute("SELECT id FROM outbox.message_default ORDER BY pos")] == ids
    window.settle(ids[:2])
    assert past.purge(conn)[-1][0] == "done"
    assert conn.execute("SELECT count(*) FROM outbox.message_default").fetchone() == (0,)
    ids.append(send(conn, key="k"))
    assert drain(conn) == ids[2:]


def test_a_tenant_is_no_hole(db, conn):
    """Y3: a session with a tenant runs purge: the messages of others are none the less kept."""
    past.make_period(conn, 30)
    ident = past.age(conn, send(conn), 30)
    with db.connect(autocommit=True) as other:
        other.execute("SELECT set_config('app.current_tenant_id', %s, false)", (TENANT,))
        past.purge(other)
    assert drain(conn) == [ident]


def test_a_clock_that_was_ahead(conn):
    """Y7: no window is leased for longer than a day."""
    ident = send(conn)
    Window(conn)
    conn.execute("UPDATE outbox.log_window SET until = now() + interval '3 days', swept = now() + interval '3 days', taken_at = now() + "
                 "interval '3 days' WHERE open")
    past.purge(conn)
    deadline = time.monotonic() + 20
    seen = []
    while not seen and time.monotonic() < deadline:
        seen = drain(conn)
    assert seen == [ident]


# ---- erasure ---------------------------------------------------------------------------------------------------------


def test_erase_a_tenant(conn):
    """V14 Y3: its messages are not taken any more; those of others are."""
    others = [send(conn, key="k"), send(conn)]
    for more in ({}, {"key": "k"}):
        send(conn, tenant_id=TENANT, **more)
    others += [send(conn, key="k"), send(conn)]
    assert conn.execute("SELECT outbox.erase_tenant(%s)", (TENANT,)).fetchone() == (2,)
    seen = []
    while True:
        window = Window(conn)
        if not window.ids:
            break
        seen += window.ids
        window.settle(window.ids)
    assert sorted(seen) == sorted(others)
    assert conn.execute("SELECT count(*) FROM outbox.messages").fetchone() == (4,)


@pytest.mark.parametrize("what", ["erase_tenant('%s')" % TENANT, "erase_subject('default', 's')"])
def test_erasure_waits_for_a_window(db, conn, what):
    """V14: what is being delivered is waited for. Nothing of the tenant is left, no attempt either."""
    mine = send(conn, tenant_id=TENANT, subject="s")
    other = send(conn)
    window = Window(conn)
    assert window.ids == [mine, other]

    def settle():
        time.sleep(0.3)
        with db.connect(autocommit=True) as own:
            window.conn = own
            window.settle(window.ids)
    worker = threading.Thread(target=settle)
    worker.start()
    conn.execute("SELECT outbox." + what)
    worker.join()
    assert conn.execute("SELECT id, status FROM outbox.messages").fetchall() == [(other, "delivered")]
    left = conn.execute("SELECT message_id FROM outbox.attempts WHERE message_id <> %s", (other,)).fetchall()
    assert left == ([] if "tenant" in what else [(mine,)])


def test_erasure_says_that_it_cannot_wait(conn):
    """V14: the window is not settled: nothing is erased, and the error says to try again."""
    ident = send(conn, subject="s")
    window = Window(conn)
    with pytest.raises(psycopg.errors.LockNotAvailable, match="being delivered"):
        conn.execute("SELECT outbox.erase_subject('default', 's')")
    assert conn.execute("SELECT status FROM outbox.messages").fetchall() == [("processing",)]
    window.settle([ident])
    conn.execute("SELECT outbox.erase_subject('default', 's')")
    assert conn.execute("SELECT status FROM outbox.messages").fetchall() == []


def test_erasing_keeps_the_order_of_a_key(conn):
    """V14 S2 N2: the first of the key has failed and waits; the second is erased in the log; the third waits for the first."""
    ids = [send(conn, key="k")]
    window = Window(conn)
    window.settle(window.ids, 2)
    gone = send(conn, key="k", subject="s")
    ids.append(send(conn, key="k"))
    assert conn.execute("SELECT outbox.erase_subject('default', 's')").fetchone() == (1,)
    assert drain(conn) == [] and Window(conn).ids == [] # the first is not due
    conn.execute("UPDATE outbox.queue SET due = now() WHERE id = %s", (ids[0],))
    deadline = time.monotonic() + 20
    seen = []
    while len(seen) < 2 and time.monotonic() < deadline:
        seen += drain(conn)
    assert seen == ids and gone not in seen


def test_the_setting_changes_while_the_log_is_full(conn):
    """S2 N2: lane goes from log to queue and back: everything is delivered, and every key in order."""
    ids = {key: [] for key in (None, "a", "b")}
    for lane in ("log", "queue", "log", "queue"):
        conn.execute("SELECT outbox.configure('*', 'lane', %s)", (lane,))
        for _ in range(2):
            for key in ids:
                ids[key].append(send(conn, key=key))
        window = Window(conn, limit=1)
        if window.ids:
            window.settle(window.ids)
            for key in ids:
                ids[key] = [i for i in ids[key] if i not in window.ids]
    seen = drain(conn)
    assert sorted(seen) == sorted(sum(ids.values(), []))
    for key in ("a", "b"):
        assert [i for i in seen if i in ids[key]] == ids[key]
