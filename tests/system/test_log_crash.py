"""Death at every point in the life of a window of the log: between its transactions, and inside each of them.

Proves: N7 (the ledger balances), N2 (first acceptances of a key in order), V10 M8 S14 (what a dead relay held is taken over),
M10 (a late worker settles nothing), S6 (attempt numbers never repeat).

Between them: a worker dies after the take, after it has read the window, with a part of it settled, with the rest handed to the
queue, after the window is closed. Inside: a backend is in take, in settle_window, in the repair of a dead worker's window, in
rebase. The worker's connection ends, its backend is terminated, or the server goes down as in a crash. Then a relay delivers
what is left. And relays die (kill -9) at points of their own, OUTBOX_CRASH_AT: after a take, with an eject or a rebase sent;
those before and after a settle, and of deliveries, are in test_relay_crash.py.
OUTBOX_RELAY_CRASHES: so many rounds (1; more in the long proof, which also crashes the server everywhere).
"""
import itertools
import os
import signal
import threading

import psycopg
import pytest

from support import database
from support.pgserver import PgServer
from support.relay import Relay, read_ledger, wait_for
from support.shop import Ledger, PgShop

ROUNDS = int(os.environ.get("OUTBOX_RELAY_CRASHES", "1"))
KEYS = tuple("key-%d" % n for n in range(12)) + (None,) * 6
LEASE = "300 ms"
numbers = itertools.count(1)


class Worker:
    """Takes windows by the statements of the relay. `accepted`: what it has delivered."""

    def __init__(self, shop, accepted):
        self.name, self.accepted = "worker-%d" % next(numbers), accepted
        self.conn = psycopg.connect(shop.url, autocommit=True, application_name=self.name)
        self.window = self.rows = None

    def take(self, most=20):
        nonce = next(numbers)
        shard, id, size = self.conn.execute("SELECT shard, id, size FROM outbox.take(%s, %s, %s, %s)",
                                            (self.name, most, LEASE, nonce)).fetchone()
        self.window = (shard, id, nonce) if size else None
        return size

    def read(self):
        self.rows = self.conn.execute("SELECT id::text, key, seq FROM outbox.window_messages WHERE nonce = %s",
                                      (self.window[2],)).fetchall()
        return self.rows

    def settle(self, rows, outcome=1):
        """None: still under way, it goes on as a row of the queue."""
        if outcome == 1:
            self.accepted += [{"id": id, "attempt": 1, "key": key, "seq": seq} for id, key, seq in rows]
        return self.conn.execute(
            "SELECT result FROM outbox.settle_window(%s, %s, %s, '{0}', %s, %s::uuid[], %s::int[], worker => %s,"
            " lease => %s)", ([self.window[0]], [self.window[1]], [self.window[2]], [1] * len(rows), [row[0] for row in rows],
                              [outcome] * len(rows), self.name, LEASE)).fetchall()


def taken(worker):
    pass


def was_read(worker):
    worker.read()


def settled_in_part(worker):
    rows = worker.read()
    assert worker.settle(rows[:len(rows) // 2]) == []


def handed_over(worker):
    """The first is settled, the rest goes on as rows of the queue."""
    rows = worker.read()
    assert worker.settle(rows[:1]) == []
    if rows[1:]:
        assert worker.settle(rows[1:], None) == []


def closed(worker):
    assert worker.settle(worker.read()) == []


POINTS = [taken, was_read, settled_in_part, handed_over, closed]


def use_log(shop):
    shop.sql("SELECT outbox.configure('*', 'lane', 'log')")
    return shop


def drain(shop, tmp_path, sent, accepted):
    """A relay delivers what is left; then the books must balance, and nothing may be left anywhere."""
    ledger = tmp_path / ("ledger-%d" % next(numbers))
    relay = Relay(tmp_path, shop.url, {"out": {"kind": "stub", "ledger": str(ledger)}}, [{"sink": "out"}],
                  relay={"lease": "1s", "poll": "50ms"}, log={"level": "info"})
    relay.start()
    try:
        shop.wait(delivered=len(sent), timeout=60)
        wait_for(lambda: shop.sql("SELECT count(*) FROM outbox.queue") == [(0,)], what="an empty queue")
    finally:
        relay.kill()
    assert shop.sql("SELECT shard, id FROM outbox.log_window WHERE open") == []
    books = Ledger(sent, accepted + read_ledger(ledger)).check(duplicates=True)
    attempts = shop.all_attempts()
    for message in sent:
        outcomes = [outcome for _, outcome in attempts[message.id]]
        assert outcomes.count("delivered") == 1 and outcomes[-1] == "delivered", (message, outcomes)
        assert [number for number, _ in attempts[message.id]] == list(range(1, len(outcomes) + 1)), outcomes
    assert books.duplicates() <= sum(outcome == "lost" for outcomes in attempts.values() for _, outcome in outcomes)
    return books


@pytest.fixture(scope="module")
def crash_server():
    with PgServer(fsync=True) as server:
        database.create_template(server)
        yield server


@pytest.fixture
def crash_shop(crash_server):
    db = database.create_database(crash_server, "crash%d" % next(numbers), database.TEMPLATE)
    yield use_log(PgShop(db))
    database.drop_database(db)


@pytest.mark.parametrize("how", ["connection", "server"])
def test_between_transactions(crash_server, crash_shop, tmp_path, how):
    """V10 M8 N7 N2: workers die at all the points at once; none of them leaves anything behind that a relay does not find."""
    accepted, sent = [], []
    for _ in range(ROUNDS):
        sent += crash_shop.enqueue(len(KEYS) * 4, keys=KEYS)
        workers = [Worker(crash_shop, accepted) for _ in POINTS]
        sizes = []
        for worker, point in zip(workers, POINTS):
            sizes.append(worker.take(8))
            point(worker)
        assert all(sizes), "each point needs a window: %s" % sizes
        if how == "server":
            crash_server.restart("immediate")
        for worker in workers:
            worker.conn.close()
    books = drain(crash_shop, tmp_path, sent, accepted)
    assert books.duplicates() == 0, "what was settled was delivered again"
    lost = sum(outcome == "lost" for outcomes in crash_shop.all_attempts().values() for _, outcome in outcomes)
    assert lost >= 2 * ROUNDS, "what the dead had taken counts as an attempt"


@pytest.mark.parametrize("how", ["late", "after the crash"])
def test_the_dead_settle_nothing(crash_server, crash_shop, tmp_path, how):
    """M10: the window of a worker was repaired meanwhile; what it says of it counts no more."""
    accepted, late = [], []
    sent = crash_shop.enqueue(30, keys=KEYS)
    worker = Worker(crash_shop, accepted)
    assert worker.take()
    rows = worker.read()
    if how != "late":
        crash_server.restart("immediate")
        worker.conn = psycopg.connect(crash_shop.url, autocommit=True)
    drain(crash_shop, tmp_path, sent, accepted)
    before = crash_shop.all_attempts()
    worker.accepted = late
    assert worker.settle(rows) == [("lost",)] * len(rows)
    assert worker.settle(rows, None) == [("lost",)] * len(rows)
    assert crash_shop.all_attempts() == before
    assert crash_shop.sql("SELECT count(*) FROM outbox.queue") == [(0,)]


# ---- inside a transaction ----

WAIT = ("CREATE FUNCTION wait() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN PERFORM pg_sleep(600); RETURN NULL; END $$",
        "CREATE TRIGGER wait AFTER INSERT ON outbox.%s FOR EACH STATEMENT EXECUTE FUNCTION wait()")


def stuck_in(shop, worker, statement, *params):
    """A statement of this worker that hangs; returns a function that waits for its end, which is no good one."""
    ended = []

    def run():
        try:
            worker.conn.execute(statement, params)
        except psycopg.Error as error:
            ended.append(error)
    thread = threading.Thread(target=run, daemon=True)
    thread.start()
    pid = worker.conn.info.backend_pid
    wait_for(lambda: shop.sql("SELECT 1 FROM pg_stat_activity WHERE pid = %s AND wait_event = 'PgSleep'", pid),
             what="a backend inside")

    def end():
        thread.join(30)
        assert ended, "it was carried out"
    return pid, end


def in_take(shop, worker):
    return "log_window", "SELECT * FROM outbox.take(%s, 10, '1 s', %s)", worker.name, next(numbers)


def in_settle(shop, worker):
    assert worker.take()
    ids = [row[0] for row in worker.read()]
    return ("attempt", "SELECT * FROM outbox.settle_window(%s, %s, %s, '{0}', %s, %s::uuid[], %s)", [worker.window[0]],
            [worker.window[1]], [worker.window[2]], [1] * len(ids), ids, [1] * len(ids))


def leave_windows(shop):
    """Of workers that are dead, as many as there can be; their leases end."""
    dead = Worker(shop, [])
    while dead.take():
        pass
    dead.conn.close()
    wait_for(lambda: shop.sql("SELECT bool_and(until < clock_timestamp()) FROM outbox.log_window WHERE open") == [(True,)],
             what="the end of the leases")


def in_repair(shop, worker):
    leave_windows(shop)
    return "queue", "SELECT * FROM outbox.take(%s, 10, '1 s', %s)", worker.name, next(numbers)


def in_rebase(shop, worker):
    """As in a restored dump: the numbers are those of another server."""
    leave_windows(shop)
    shop.sql("UPDATE outbox.log_window SET cluster = cluster - 1")
    return ("queue", "SELECT outbox.rebase()")


INSIDE = [(where, how) for how in ("terminated", "server") for where in (in_take, in_settle, in_repair, in_rebase)
          if ROUNDS > 1 or how == "terminated" or where in (in_repair, in_rebase)]


@pytest.mark.parametrize("where,how", INSIDE, ids=["%s-%s" % (where.__name__, how) for where, how in INSIDE])
def test_inside_a_transaction(crash_server, crash_shop, tmp_path, where, how):
    """N7 N2 V10: nothing of it stands, and the next one does it again."""
    sent = crash_shop.enqueue(40, keys=KEYS)
    worker = Worker(crash_shop, [])
    table, statement, *params = where(crash_shop, worker)
    crash_shop.sql(WAIT[0])
    crash_shop.sql(WAIT[1] % table)
    pid, end = stuck_in(crash_shop, worker, statement, *params)
    if how == "server":
        crash_server.restart("immediate")
    else:
        crash_shop.sql("SELECT pg_terminate_backend(%s)", pid)
    end()
    worker.conn.close()
    crash_shop.sql("DROP FUNCTION wait() CASCADE")
    drain(crash_shop, tmp_path, sent, [])


# ---- relays ----


@pytest.mark.parametrize("point", ["taken", "ejecting", "rebasing"])
def test_relay_dies(crash_shop, tmp_path, point):
    """V10 M8 N7 N2: kill -9 of a relay that has taken a window, is handing slow messages of one over to the queue, or begins
    the log anew after a restore. Its backend may or may not have done what it was told."""
    ledger, sent = tmp_path / "ledger", []
    sink = {"kind": "stub", "ledger": str(ledger), "delay": "700ms" if point == "ejecting" else "0s"}
    relay = Relay(tmp_path, crash_shop.url, {"out": sink}, [{"sink": "out"}],
                  relay={"lease": "2s", "poll": "50ms", "batch": 8})
    try:
        # Once where it ejects: what the dead one left is in the queue, and the next may have no window that is slow.
        for turn in range(1 if point == "ejecting" else ROUNDS):
            sent += crash_shop.enqueue(len(KEYS) * 2, keys=KEYS)
            if point == "rebasing":
                crash_shop.sql("SELECT outbox.rebase()")  # the last one may not have come to it
                leave_windows(crash_shop)
                crash_shop.sql("UPDATE outbox.log_window SET cluster = cluster - 1")
            relay.start(OUTBOX_CRASH_AT="%s:%d" % (point, 1 + turn % 4 if point == "taken" else 1))
            assert relay.wait() == -signal.SIGKILL, relay.log()[-2000:]
    finally:
        relay.kill()
    drain(crash_shop, tmp_path, sent, read_ledger(ledger))
