"""Many takers of one log: they queue up for the shard of messages without a key, and nobody holds it while the disk writes.

Proves: T1 (many in parallel, no record handled twice at once), V8 (two workers never hold one message), M10 (what a relay holds is on disk).
"""
import pathlib
import threading
import time

import pytest

STATEMENTS = pathlib.Path(__file__).parents[2] / "sql" / "postgres" / "stmt"
TAKE = "select size, busy from outbox.take('w', %s, '30 s', %s, %s)"


@pytest.fixture
def conn(db):
    with db.connect(autocommit=True) as conn:
        conn.execute("select outbox.configure('*', 'lane', 'log')")
        yield conn


def send(conn, count, key="null"):
    conn.execute("select count(outbox.enqueue('t', to_jsonb(n), key => %s)) from generate_series(1, %d) n" % (key, count))


@pytest.mark.parametrize("hint", [None, -1])
def test_t1_takers_without_keys_wait_for_each_other(db, conn, hint):
    """A taker that finds the shard locked sleeps until it is free instead of coming back at once; not forever."""
    send(conn, 10)
    answers = []
    with db.connect() as first, db.connect(autocommit=True) as second:
        assert first.execute(TAKE, (5, 1, hint)).fetchone() == (5, False)
        began = time.monotonic()
        for nonce in (2, 3, 4):
            assert second.execute(TAKE, (5, nonce, hint)).fetchone() == (0, True)
        assert time.monotonic() - began > 0.25

        def take():
            while not answers or answers[-1][0] == 0:
                answers.append(second.execute(TAKE, (5, 5 + len(answers), hint)).fetchone())
        waits = threading.Thread(target=take)
        waits.start()
        while not waiting(conn, second) and waits.is_alive():
            pass
        first.commit()
        waits.join()
        assert answers[-1] == (5, False)


def waiting(conn, other):
    return conn.execute("select wait_event_type = 'Lock' from pg_stat_activity where pid = %s", (other.info.backend_pid,)).fetchone()[0]


def test_t1_a_shard_of_keys_is_not_waited_for(db, conn):
    """It has one window at a time: when the other is done, there is still nothing to take."""
    send(conn, 10, key="'k'")
    with db.connect() as first, db.connect() as second:
        assert first.execute(TAKE, (5, 1, None)).fetchone() == (5, False)
        second.execute("set local lock_timeout = '1 ms'")
        assert second.execute(TAKE, (5, 2, None)).fetchone() == (0, True)
        assert second.execute("select count(*) from pg_locks where pid = pg_backend_pid() and locktype = 'tuple'").fetchone() == (0,)


def test_t1_sixteen_takers_share_the_log(db, conn):
    """Each message is taken once, and a taker goes home only when there is nothing left."""
    send(conn, 2000)
    sizes, ids = [], []

    def take_all(number):
        with db.connect(autocommit=True) as own:
            for nonce in range(number * 1000 + 1, number * 1000 + 1000):
                size, busy = own.execute(TAKE, (25, nonce, -1)).fetchone()
                if size:
                    sizes.append(size)
                    ids.extend(row[0] for row in own.execute("select id from outbox.window_messages where nonce = %s", (nonce,)))
                elif not busy:
                    return
    takers = [threading.Thread(target=take_all, args=(n,)) for n in range(16)]
    for taker in takers:
        taker.start()
    for taker in takers:
        taker.join()
    assert len(ids) == len(set(ids)) == 2000 and sizes == [25] * 80


def prepare(conn, name):
    text = (STATEMENTS / (name + ".sql")).read_text()
    conn.execute("prepare %s as %s" % (name, text.replace("@schema@", "outbox").replace("%", "%%")))


def setting(conn):
    return conn.execute("show synchronous_commit").fetchone()[0]


def test_m10_the_page_waits_for_the_disk_and_not_the_take(db, conn):
    """The shard is free as soon as the window is there. The relay has its messages when page has committed, and the take with it."""
    send(conn, 3)
    with db.connect() as relay:
        prepare(relay, "take")
        prepare(relay, "page")
        relay.execute("set synchronous_commit = on")
        relay.commit()
        assert relay.execute("execute take('w', 10, '30 s', 7, null, null, 16, null, null, null, null, null)").fetchone()[2] == 3
        assert setting(relay) == "off"
        relay.commit()
        assert len(relay.execute("execute page(7)").fetchall()) == 3
        assert setting(relay) == "on"
        # Only a transaction that has a number and has written something is waited for.
        assert relay.execute("select pg_current_xact_id_if_assigned() is not null, "
                             "(select xmax = pg_current_xact_id()::xid from outbox.log_window where nonce = 7)").fetchone() == (True, True)
        relay.commit()
        assert relay.execute("execute page(8)").fetchall() == []
        assert relay.execute("select pg_current_xact_id_if_assigned()").fetchone() == (None,)
