"""Retention while others work: producers hardly wait, nothing that commits at the wrong moment is lost.

Proves: S1 S4 S7 Y7 N4 (nothing of the relay's makes producers wait) V8.
"""
import threading
import time

import pytest

from support import past

from test_retention import partitions, send, settle


@pytest.fixture
def conn(db):
    with db.connect(autocommit=True) as conn:
        past.purge(conn)
        yield conn


class Background(threading.Thread):
    """Runs a function of a connection beside the test; its result or its exception comes with `result`."""

    def __init__(self, db, work, **options):
        super().__init__(daemon=True)
        self.conn = db.connect(autocommit=True, **options)
        self.pid = self.conn.info.backend_pid
        self.work = work
        self.value = self.error = None
        self.start()

    def run(self):
        try:
            self.value = self.work(self.conn)
        except BaseException as error:
            self.error = error
        finally:
            self.conn.close()

    def result(self, timeout=60):
        self.join(timeout)
        assert not self.is_alive(), "it hangs"
        if self.error:
            raise self.error
        return self.value


def wait_until(what, timeout=30):
    deadline = time.monotonic() + timeout
    while not what():
        assert time.monotonic() < deadline, "it never happened"
        time.sleep(0.001)


def waits_for_a_lock(conn, pid):
    return conn.execute("SELECT count(*) FROM pg_locks WHERE pid = %s AND NOT granted", (pid,)).fetchone()[0] > 0


def purge_by_and_by(conn):
    """As a relay would: again and again, whatever it says, until all is done."""
    steps = []
    while not steps or steps[-1][0] != "done":
        steps += past.purge(conn)
    return steps


# ---- the wrong moment ------------------------------------------------------------------------------------------------


def test_a_message_that_commits_while_purge_waits_for_it(db, conn):
    """S1: a transaction that enqueued in an old period is still open when purge comes. It commits while purge waits for
    the partition: its message is kept."""
    suffix = past.make_period(conn, 10)
    send(db, "x", key="k")
    with db.connect() as producer:
        message = producer.execute("SELECT id FROM outbox.message").fetchone()[0]
        past.age(producer, message, 10)  # now a row of the old partition, and not committed
        purge = Background(db, past.purge)
        wait_until(lambda: waits_for_a_lock(conn, purge.pid))
        producer.commit()
        purge.result()
    purge_by_and_by(conn)
    assert "message_" + suffix not in partitions(conn, "message")
    assert db.sql("SELECT payload, seq FROM outbox.claim('w')") == [("x", 1)]


def test_a_message_that_commits_late(db, conn):
    """S1: the transaction stays open: purge says so, goes on with nothing, and loses nothing later."""
    suffix = past.make_period(conn, 10)
    send(db, "x")
    with db.connect() as producer:
        past.age(producer, producer.execute("SELECT id FROM outbox.message").fetchone()[0], 10)
        step = conn.execute("SELECT action, more FROM outbox.purge()").fetchone()
        assert step == ("wait", False)
        assert conn.execute("SELECT message FROM outbox.period WHERE suffix = %s", (suffix,)).fetchone() == (True,)
        producer.commit()
    purge_by_and_by(conn)
    assert db.sql("SELECT payload FROM outbox.claim('w')") == [("x",)]


def test_an_attempt_that_commits_while_purge_waits_for_it(db, conn):
    """S6 S1: the same for an attempt of an old message: it is on record afterwards."""
    past.make_period(conn, 10)
    message = past.age(conn, send(db, "x", max_attempts=3), 10)
    for action in ("keep", "keep", "empty"):  # out of the log, out of the partition; the attempts are next
        assert conn.execute("SELECT action FROM outbox.purge()").fetchone() == (action,)
    with db.connect() as worker:
        worker.execute("SELECT outbox.nack(ARRAY[id], ARRAY[token], ARRAY['no'], delays => ARRAY['0 s'::interval]) "
                       "FROM outbox.claim('w')")
        purge = Background(db, past.purge)
        wait_until(lambda: waits_for_a_lock(conn, purge.pid))
        worker.commit()
        purge.result()
    purge_by_and_by(conn)
    assert db.sql("SELECT attempt_no, outcome, topic FROM outbox.attempts WHERE message_id = %s",
                  message) == [(1, "retry", "t")]
    settle(db, 1)
    assert db.sql("SELECT attempt_no, outcome FROM outbox.attempts WHERE message_id = %s ORDER BY 1", message) \
        == [(1, "retry"), (2, "delivered")]


def test_an_attempt_between_emptying_and_dropping(db, conn):
    """S6 S1: a partition was emptied and not dropped yet; an attempt that comes into it meanwhile is not lost with
    it."""
    suffix = past.make_period(conn, 10)
    message = past.age(conn, send(db, "x", max_attempts=3), 10)
    while conn.execute("SELECT detail FROM outbox.purge()").fetchone()[0] != "attempt_" + suffix:
        pass
    assert "attempt_" + suffix in partitions(conn, "attempt")
    settle(db, 2)
    assert conn.execute("SELECT count(*) FROM outbox.attempt_%s" % suffix).fetchone() == (1,)
    purge_by_and_by(conn)
    assert "attempt_" + suffix not in partitions(conn, "attempt")
    assert db.sql("SELECT attempt_no, outcome FROM outbox.attempts WHERE message_id = %s", message) == [(1, "retry")]


def test_an_attempt_while_what_was_kept_is_emptied(db, conn):
    """S6 S1: the last look before the truncate is under a lock."""
    gone = send(db, "x")
    settle(db, 1)
    gone = past.age(conn, gone, 40)
    message = past.age(conn, send(db, "y"), 40)
    with db.connect() as worker:
        worker.execute("SELECT outbox.ack(ARRAY[id], ARRAY[token]) FROM outbox.claim('w')")
        purge = Background(db, past.purge)
        wait_until(lambda: waits_for_a_lock(conn, purge.pid))
        worker.commit()
        purge.result()
    purge_by_and_by(conn)
    assert db.sql("SELECT outcome FROM outbox.attempts WHERE message_id = %s", message) == [("delivered",)]
    assert db.sql("SELECT count(*) FROM outbox.messages WHERE id = %s", gone) == [(0,)]


def test_retry_and_purge(db, conn):
    """S1 M13: an operator's open retry and an open purge do not wait for each other, in any order, and the message is
    there."""
    past.make_period(conn, 10)
    for what in ("first", "second"):
        send(db, what)
        settle(db, 3)
    ids = [past.age(conn, message, 10) for message, in conn.execute("SELECT id FROM outbox.dead ORDER BY id").fetchall()]
    conn.execute("SET lock_timeout = '1s'")
    with db.connect() as operator:
        operator.execute("SELECT outbox.retry(ids => %s)", (ids[:1],))
        assert conn.execute("SELECT action, more FROM outbox.purge()").fetchone() == ("keep", True)
        with db.connect() as purger:
            assert purger.execute("SELECT action FROM outbox.purge()").fetchone() == ("empty",)
            assert conn.execute("SELECT outbox.retry(ids => %s)", (ids[1:],)).fetchone() == (1,)
            purger.commit()
        operator.commit()
    purge_by_and_by(conn)
    assert db.sql("SELECT payload, redriven FROM outbox.claim('w') ORDER BY 1") == [("first", True), ("second", True)]


def test_two_purges_at_once(db, conn):
    """Y7: the second says that it is busy, and does nothing; many together do each step once."""
    suffix = past.make_period(conn, 10)
    with db.connect() as first:
        assert first.execute("SELECT action FROM outbox.purge()").fetchone() == ("empty",)
        assert conn.execute("SELECT action, more FROM outbox.purge()").fetchone() == ("busy", False)
        first.commit()
    for days in range(11, 16):
        past.make_period(conn, days)
    crowd = [Background(db, purge_by_and_by) for _ in range(4)]
    steps = [step for purge in crowd for step in purge.result()]
    dropped = [detail for action, detail, _ in steps if action == "drop"]
    assert len(dropped) == len(set(dropped)) == 12
    assert conn.execute("SELECT count(*) FROM outbox.period WHERE finish < now()").fetchone() == (0,)
    assert not [name for name in partitions(conn, "message") | partitions(conn, "attempt") if suffix in name]


# ---- everybody at once -----------------------------------------------------------------------------------------------


def test_producers_hardly_wait(db, conn):
    """N4 S1: partitions are made, emptied and dropped while a transaction that enqueued stays open and others enqueue
    all the time. No producer waits for a lock for 150 ms: it would fail with 55P03. Nothing is lost, and a relay
    works."""
    for days in range(10, 16):
        past.make_period(conn, days)
        past.age(conn, send(db, "old %d" % days), days)
    stop = threading.Event()

    def produce(other):
        other.execute("SET lock_timeout = '150ms'")
        count = 0
        while not stop.is_set():
            other.execute("SELECT outbox.enqueue('t', to_jsonb(%s::int), key => %s)",
                          (count, "k%d" % other.info.backend_pid))
            count += 1
        return count

    def work(other):
        count = 0
        while not stop.is_set() or other.execute("SELECT count(*) FROM outbox.queue").fetchone()[0]:
            done = other.execute("SELECT count(*) FILTER (WHERE s.result = 'ok') FROM (SELECT array_agg(id) AS ids, "
                                 "array_agg(token) AS tokens, array_agg(1) AS ones FROM outbox.claim('w', 100, run => "
                                 "100)) c, LATERAL outbox.settle(ids, tokens, ones) s WHERE ids IS NOT "
                                 "NULL").fetchone()[0]
            count += done
        return count

    producers = [Background(db, produce) for _ in range(3)]
    relay = Background(db, work)
    opened = db.connect()
    opened.execute("SELECT outbox.enqueue('t', '\"open\"', key => 'open')")
    steps = []
    try:
        for width in ("3 days", "9 days", "27 days", "81 days"):
            conn.execute("SELECT outbox.configure('*', 'partition_width', %s)", (width,))
            for _ in range(12):
                steps.append(conn.execute("SELECT action, detail FROM outbox.purge()").fetchone())
            if width == "27 days":
                opened.commit()
    finally:
        stop.set()
        opened.close()
    sent = sum(producer.result() for producer in producers)
    assert relay.result(120) == sent + 6 + 1
    actions = [action for action, _ in steps]
    assert actions.count("empty") == 12 and actions.count("create") >= 6, actions
    assert "wait" in actions and "drop" in actions, "dropping waits for the open transaction, and gives up: %s" % actions
    purge_by_and_by(conn)
    assert conn.execute("SELECT count(*) FROM outbox.period WHERE finish < now()").fetchone() == (0,)
    assert sent > 50


def test_producers_go_on_when_nobody_purged_for_long(db, conn):
    """N4 S1: the present period has no partition, and rows fall into the default one all the time. The first step of purge
    makes the partition all the same, and no producer and no relay waits for long."""
    for suffix, in conn.execute("SELECT suffix FROM outbox.period").fetchall():
        for parent in ("message", "attempt"):
            conn.execute("DROP TABLE outbox.%s_%s" % (parent, suffix))
    conn.execute("DELETE FROM outbox.period")
    stop = threading.Event()

    def produce(other):
        other.execute("SET lock_timeout = '1s'")
        count = 0
        while not stop.is_set():
            other.execute("SELECT outbox.enqueue('t', '1')")
            count += 1
            if count % 2:
                other.execute("SELECT outbox.ack(ARRAY[id], ARRAY[token]) FROM outbox.claim('w%s', 1)" % other.info.backend_pid)
        return count

    producers = [Background(db, produce) for _ in range(3)]
    try:
        wait_until(lambda: conn.execute("SELECT count(*) > 50 FROM outbox.attempt").fetchone()[0])
        steps = purge_by_and_by(conn)
    finally:
        stop.set()
    sent = sum(producer.result() for producer in producers)
    assert [action for action, _, _ in steps].count("create") >= 3
    assert conn.execute("SELECT count(*) FROM outbox.period WHERE start <= now() AND finish > now()").fetchone() == (1,)
    assert conn.execute("SELECT count(*) FROM outbox.messages").fetchone() == (sent,)
    send(db, "after")
    assert conn.execute("SELECT count(*) FROM outbox.message_default").fetchone() == (0,)
