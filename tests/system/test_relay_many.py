"""Several relays on one PostgreSQL store, in the calm and while they are killed; and everything through a pooler.

Proves: V8 T1 (many in parallel, no message handled twice at once), V10 S14 (what a killed one held is taken over), N2 N7
(order and ledger through kills), S9 (polling where nobody can ring, and it is said), M10.

All relays write to one ledger, with one append a message: its lines are in the order of acceptance, over all of them.
OUTBOX_RELAY_KILLS: so many kills, one a second (8; more in the long proof).
"""
import contextlib
import os
import random
import threading
import time

import pytest

from support.doorbell import Pooler
from support.relay import Relay, read_ledger, wait_for
from support.shop import Ledger, PgShop

KILLS = int(os.environ.get("OUTBOX_RELAY_KILLS", "8"))
KEYS = ("a", "b", "c", "d", None, None)


def make(tmp_path, shop, number, **options):
    sink = {"kind": "stub", "ledger": str(tmp_path / "ledger"), "delay": "1ms", "run": 4, "concurrency": 16}
    settings = {"worker": "relay-%d" % number, "poll": "100ms", "batch": 20, "max_messages": 40, **options}
    return Relay(tmp_path, shop.url, {"out": sink}, [{"sink": "out"}], name="relay-%d" % number, relay=settings,
                 log={"level": "info"})


@contextlib.contextmanager
def running(relays):
    try:
        for relay in relays:
            relay.start()
        yield relays
        for relay in relays:
            relay.stop()
    finally:
        for relay in relays:
            relay.kill()


class Producer(threading.Thread):
    """Commits a few messages at a time until it is told to stop; `sent` is what it committed."""

    def __init__(self, shop, pause=0.01):
        super().__init__(daemon=True)
        self.shop, self.pause, self.sent, self.over = shop, pause, [], threading.Event()
        self.fault = None

    def run(self):
        try:
            conn = self.shop.connect()
            while not self.over.wait(self.pause):
                keys = random.sample(KEYS, 4)
                rows = [self.shop.put(conn, {"topic": "orders", "key": key, "payload": "{}", "max_attempts": 1000})
                        for key in sorted(keys, key=str)]
                self.shop.commit(conn)
                self.sent += rows
            conn.close()
        except Exception as fault:
            self.fault = fault

    def stop(self):
        self.over.set()
        self.join()
        assert self.fault is None, self.fault
        return self.sent


@pytest.mark.parametrize("count", [2, 4])
def test_no_message_twice_in_the_calm(pg_shop, tmp_path, count):
    """T1 V8: each message is one attempt of one relay, and each relay has its share."""
    sent = pg_shop.enqueue(600, keys=KEYS)
    producer = Producer(pg_shop)
    with running([make(tmp_path, pg_shop, number) for number in range(count)]):
        producer.start()
        wait_for(lambda: len(read_ledger(tmp_path / "ledger")) >= 1200, 60)
        wait_for(lambda: len(pg_shop.sql("SELECT DISTINCT split_part(worker, '-', 2) FROM outbox.attempts")) == count, 60,
                 "a share for every relay")
        sent += producer.stop()
        pg_shop.wait(delivered=len(sent))
    Ledger(sent, read_ledger(tmp_path / "ledger")).check()
    assert set(map(tuple, pg_shop.all_attempts().values())) <= {((1, "delivered"),), ((2, "delivered"),)}


def test_one_is_killed_every_second(pg_shop, tmp_path):
    """N7 V10: four relays, of which one is shot every second and another one started: nothing lost, order kept,
    duplicates only of attempts that the record calls lost."""
    relays = [make(tmp_path, pg_shop, number, lease="1s") for number in range(4)]
    producer = Producer(pg_shop)
    dice = random.Random(int(os.environ.get("OUTBOX_TEST_SEED", "7")))
    with running(relays):
        producer.start()
        for _ in range(KILLS):
            time.sleep(1)  # the pace of the test, not a wait for something
            victim = dice.choice(relays)
            victim.kill()
            victim.start()
        sent = producer.stop()
        pg_shop.wait(delivered=len(sent), timeout=60)
        wait_for(lambda: all(relay.started() for relay in relays))  # the last one, too, is stopped in an orderly way
    ledger = Ledger(sent, read_ledger(tmp_path / "ledger")).check(duplicates=True)
    attempts = pg_shop.all_attempts()
    assert {outcome for outcomes in attempts.values() for _, outcome in outcomes} <= {"delivered", "lost"}
    assert all([outcome for _, outcome in outcomes].count("delivered") == 1 for outcomes in attempts.values())
    for id in ledger.twice():
        assert sum(outcome == "lost" for _, outcome in attempts[id]) >= ledger.times[id] - 1, (id, attempts[id])
    assert len(sent) > 50 * KILLS


# ---- through a pooler ----


def test_through_pgbouncer(db, tmp_path):
    """S9: producers and relay behind pgbouncer, which pools transactions: it works, by polling; log and metric say so."""
    with Pooler(db, "transaction") as pooler:
        shop = PgShop(db, "postgresql://postgres@127.0.0.1:%d/%s" % (pooler.port, db.name))
        relay = Relay(tmp_path, shop.url, {"out": {"kind": "stub", "ledger": str(tmp_path / "ledger"), "run": 4}},
                      [{"sink": "out"}], admin=True)
        sent = shop.enqueue(100, keys=KEYS)
        with relay.running():
            shop.wait(delivered=100)
            wait_for(lambda: relay.metric("outbox_store_polling") == 1)
            sent += shop.enqueue(100, keys=KEYS)
            shop.wait(delivered=200)
            assert relay.log().count("behind a connection pooler") == 1
            assert relay.metric("outbox_store_connected") == 1
    Ledger(sent, read_ledger(tmp_path / "ledger")).check()
    assert "level=error" not in relay.log(), relay.log()


def test_pgbouncer_goes_away_and_comes_back(db, tmp_path):
    """The pooler is restarted under the relay: it goes on where it was."""
    with Pooler(db, "transaction") as pooler:
        shop = PgShop(db)
        relay = Relay(tmp_path, "postgresql://postgres@127.0.0.1:%d/%s" % (pooler.port, db.name),
                      {"out": {"kind": "stub", "ledger": str(tmp_path / "ledger")}}, [{"sink": "out"}])
        with relay.running():
            sent = shop.enqueue(20, keys=KEYS)
            shop.wait(delivered=20)
            pooler.process.terminate()
            pooler.process.wait()
            sent += shop.enqueue(20, keys=KEYS)
            wait_for(lambda: relay.logged("store unavailable"))
            pooler.__enter__()
            shop.wait(delivered=40)
            wait_for(lambda: relay.logged("store connected again"))
    Ledger(sent, read_ledger(tmp_path / "ledger")).check(duplicates=True)
