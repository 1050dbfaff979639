"""What happens to databases: restarts, lost connections, failover to a standby, a full disk. The relay comes through.

Proves: N7 (the ledger balances after each), M1 (what was committed is delivered, what was not is not), V10 M10, N2 (order),
Y8 (the database goes away).
"""
import threading
import time

import psycopg
import pytest

from support.database import Database
from support.pgcluster import SmallDisk, Standby
from support.relay import Relay, read_ledger, wait_for
from support.shop import Ledger, PgShop

KEYS = ("a", "b", "c", None)


class Producer(threading.Thread):
    """Goes on through every loss of the connection. `sent`: the commit was answered. `open`: it was asked for and not
    answered: only the database knows."""

    def __init__(self, shop):
        super().__init__(daemon=True)
        self.shop, self.over = shop, threading.Event()
        self.sent, self.open, self.losses = [], [], 0

    def run(self):
        conn = None
        while not self.over.wait(0.005):
            rows = []
            try:
                conn = conn or self.shop.connect()
                for key in KEYS:
                    rows.append(self.shop.put(conn, {"topic": "orders", "key": key, "payload": "{}"}))
                self.shop.commit(conn)
                self.sent += rows
            except psycopg.Error:
                self.losses += 1
                self.open += rows
                if conn:
                    conn.close()
                conn = None
                self.over.wait(0.05)
        if conn:
            conn.close()

    def stop(self):
        """All that was committed."""
        self.over.set()
        self.join()
        there = {str(id) for (id,) in self.shop.sql("SELECT id FROM outbox.messages")}
        lost = [row for row in self.sent if row.id not in there]
        assert lost == [], "the database lost what it had committed: the test, not the relay, is at fault"
        return self.sent + [row for row in self.open if row.id in there]


def make(tmp_path, shop, **settings):
    sink = {"kind": "stub", "ledger": str(tmp_path / "ledger"), "delay": "1ms", "run": 4}
    return Relay(tmp_path, shop.url, {"out": sink}, [{"sink": "out"}], admin=True,
                 relay={"lease": "2s", "poll": "100ms", **settings}, log={"level": "info"})


def delivered_after(tmp_path, count, timeout=40):
    """Until so many more have been accepted: it works again."""
    goal = len(read_ledger(tmp_path / "ledger")) + count
    wait_for(lambda: len(read_ledger(tmp_path / "ledger")) >= goal, timeout, "deliveries after the fault")


def settle_up(relay, producer, shop, tmp_path):
    """Drains, and holds the ledger against what was committed."""
    sent = producer.stop()
    shop.wait(delivered=len(sent), timeout=60)
    ledger = Ledger(sent, read_ledger(tmp_path / "ledger")).check(duplicates=True)
    attempts = shop.all_attempts()
    for id in ledger.twice():
        assert sum(outcome in ("lost", "unknown", "interrupted") for _, outcome in attempts[id]) >= ledger.times[id] - 1, attempts[id]
    assert relay.process.poll() is None


@pytest.fixture
def shop(own_pg_server):
    db = Database(own_pg_server, "postgres")
    db.cli("migrate")
    return PgShop(db)


@pytest.mark.parametrize("mode", ["fast", "immediate"])
def test_server_restarts(own_pg_server, shop, tmp_path, mode):
    """Three restarts under load; with "immediate" each goes through crash recovery."""
    relay, producer = make(tmp_path, shop), Producer(shop)
    with relay.running():
        producer.start()
        for _ in range(3):
            delivered_after(tmp_path, 40)
            own_pg_server.restart(mode)
        delivered_after(tmp_path, 40)
        settle_up(relay, producer, shop, tmp_path)
        wait_for(lambda: relay.metric("outbox_store_reconnects_total") > 0, 10, "a reconnect on the page")
    assert producer.losses > 0
    assert relay.logged("store connected again")


def test_backends_are_terminated(shop, tmp_path):
    """All connections of the relay are cut, twenty times."""
    relay, producer = make(tmp_path, shop), Producer(shop)
    with relay.running():
        producer.start()
        cut = 0
        for _ in range(20):
            delivered_after(tmp_path, 12)
            cut += len(shop.sql("SELECT pg_terminate_backend(pid) FROM pg_stat_activity"
                                " WHERE application_name LIKE 'outbox%'"))
        delivered_after(tmp_path, 40)
        settle_up(relay, producer, shop, tmp_path)
    assert cut >= 20


def test_failover_to_a_standby(own_pg_server, tmp_path):
    """N7: two servers, replication waited for; the primary dies for good, the standby takes over. One address names both:
    the relay needs no restart, and what was committed is delivered."""
    Database(own_pg_server, "postgres").cli("migrate")
    with Standby(own_pg_server) as standby:
        own_pg_server.psql("ALTER SYSTEM SET synchronous_standby_names = '*'")
        own_pg_server.psql("SELECT pg_reload_conf()")
        wait_for(standby.follows, what="the standby follows")
        url = ("postgresql://postgres@127.0.0.1:%d,127.0.0.1:%d/postgres?target_session_attrs=read-write"
               % (own_pg_server.port, standby.port))
        shop = PgShop(Database(standby, "postgres"), url)
        relay, producer = make(tmp_path, shop), Producer(shop)
        with relay.running():
            producer.start()
            delivered_after(tmp_path, 100)
            own_pg_server.stop("kill")
            standby.promote()
            delivered_after(tmp_path, 100)
            settle_up(relay, producer, shop, tmp_path)
        assert producer.losses > 0


@pytest.mark.parametrize("durability", ["strict", "relaxed"])
def test_relaxed_trusts_no_name(db, tmp_path, durability):
    """N2: a crash of the server may undo what a relaxed relay has settled; the server then holds messages under the relay's
    name that the relay has given up. So it must not claim behind those. (A strict one does, and waits for no answer.)"""
    shop = PgShop(db)
    shop.sql("SELECT outbox.configure('*', 'lane', 'queue')")
    relay = Relay(tmp_path, {"shop": {"url": shop.url, "durability": durability}},
                  {"out": {"kind": "stub", "delay": "300ms"}}, [{"sink": "out"}], relay={"run": 1, "poll": "50ms"})
    shop.enqueue(4, keys=("a",))
    with relay.running():
        shop.wait(delivered=4)
    steps = [word for line in relay.log().splitlines() for word in ("claimed", "delivered") if "msg=%s " % word in line]
    in_turn = steps == ["claimed", "delivered"] * 4
    assert in_turn == (durability == "relaxed"), steps


def test_disk_full(tmp_path):
    """The disk of the database is full: nothing can be settled; the relay says so, lives, and goes on when there is room."""
    try:
        server = SmallDisk(100)
    except PermissionError as error:
        pytest.skip("a disk of a small size cannot be mounted here: %s" % error)
    with server:
        db = Database(server, "postgres")
        db.cli("migrate")
        shop = PgShop(db)
        relay = make(tmp_path, shop, lease="5s")
        relay.config["sinks"]["out"]["delay"] = "20ms"
        relay.write()
        sent = shop.enqueue(3000, keys=("a", "b") + (None,) * 18)
        # Connected while there is room: a new connection may want to write a file of the catalog's.
        with relay.running(), db.connect(autocommit=True) as watcher:
            delivered_after(tmp_path, 100)
            server.fill()
            wait_for(lambda: "store unavailable" in relay.log() and "No space left" in relay.log(), 30, "a full disk")
            with pytest.raises(psycopg.errors.DiskFull):
                watcher.execute("SELECT outbox.enqueue('orders', jsonb_build_object('x', repeat('x', 500)))"
                                " FROM generate_series(1, 3000)")
            time.sleep(1.5)  # the fault lasts
            assert relay.process.poll() is None
            done, = watcher.execute("SELECT count(*) FROM outbox.messages WHERE status = 'delivered'").fetchone()
            assert done < 3000
            server.free()
            shop.wait(delivered=3000, timeout=60)
            sent += shop.enqueue(20, keys=KEYS)
            shop.wait(delivered=3020)
        Ledger(sent, read_ledger(tmp_path / "ledger")).check(duplicates=True)
        assert relay.logged("store connected again")
