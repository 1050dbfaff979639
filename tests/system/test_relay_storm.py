"""Everything at once: relays killed, put to sleep, reloaded and paused, connections cut, the server crashed, a receiver that
fails, hangs up and hangs; and a ledger of every message at the end.

Proves: N7 (nothing lost), N2 (order per key), V10 S14 M10 (take-over, fencing), S6 (attempt numbers), M1.

OUTBOX_RELAY_STORM: so many seconds (10; more in the long proof). OUTBOX_TEST_SEED repeats the choices of a run.
"""
import os
import random
import signal
import threading
import time

import psycopg

from support.database import Database
from support.receiver import Hook, hang_up, status
from support.relay import Relay, wait_for
from support.shop import Ledger, PgShop

SECONDS = float(os.environ.get("OUTBOX_RELAY_STORM", "10"))
SEED = int(os.environ.get("OUTBOX_TEST_SEED", random.randrange(10**6)))
KEYS = tuple("key-%d" % n for n in range(6)) + (None, None)


class Receiver(Hook):
    """Takes most of what comes; of what it takes it leaves some without an answer."""

    def __init__(self, dice):
        self.dice, self.calm = dice, False
        super().__init__()

    def _take(self, request, sock):
        throw = 1.0 if self.calm else self.dice.random()
        if throw < 0.05:
            return status(503)(request, sock)
        if throw < 0.08:
            self.answer = hang_up
        elif throw < 0.09:
            self.answer = lambda _request, _sock: bool(self.stopping.wait(1))
        else:
            self.answer = status(204)
        return super()._take(request, sock)


class Producer(threading.Thread):
    """Commits some and rolls back some, through every loss of the connection."""

    def __init__(self, shop, dice):
        super().__init__(daemon=True)
        self.shop, self.dice, self.over = shop, dice, threading.Event()
        self.asked = []

    def run(self):
        conn = None
        while not self.over.wait(0.004):
            try:
                conn = conn or self.shop.connect()
                rows = [self.shop.put(conn, {"topic": "t", "key": key, "payload": "{}", "max_attempts": 1000})
                        for key in sorted(self.dice.sample(KEYS, 3), key=str)]
                if self.dice.random() < 0.1:
                    conn.rollback()
                    continue
                self.asked += rows
                conn.commit()
            except psycopg.Error:
                if conn:
                    conn.close()
                conn = None
                self.over.wait(0.05)
        if conn:
            conn.close()


class Storm:
    def __init__(self, server, shop, relays, dice):
        self.server, self.shop, self.relays, self.dice = server, shop, relays, dice
        self.happened = {}

    def kill(self):
        relay = self.dice.choice(self.relays)
        relay.kill()
        relay.start()

    def sleep(self):
        relay = self.dice.choice(self.relays)
        relay.signal(signal.SIGSTOP)
        time.sleep(self.dice.uniform(0.2, 2.5))  # shorter and longer than the lease
        relay.signal(signal.SIGCONT)

    def stop(self):
        relay = self.dice.choice(self.relays)
        wait_for(relay.started)
        relay.stop()
        relay.start()

    def reload(self):
        relay = self.dice.choice(self.relays)
        wait_for(relay.started)
        relay.signal(signal.SIGHUP)

    def cut(self):
        self.shop.sql("SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE application_name LIKE 'outbox%%'"
                      " AND random() < %s", self.dice.random())

    def crash(self):
        self.server.restart("immediate")

    def pause(self):
        self.shop.cli("pause", "--sink", "out", "--force")
        self.shop.cli("resume", "--sink", "out")

    def run(self, seconds):
        end = time.monotonic() + seconds
        while time.monotonic() < end:
            kind = self.dice.choices(["kill", "sleep", "stop", "reload", "cut", "crash", "pause"], [6, 3, 2, 3, 4, 1, 1])[0]
            getattr(self, kind)()
            self.happened[kind] = self.happened.get(kind, 0) + 1
            time.sleep(self.dice.uniform(0, 0.6))


def test_storm(own_pg_server, tmp_path, record_property):
    dice = random.Random(SEED)
    print("seed", SEED)
    db = Database(own_pg_server, "postgres")
    db.cli("migrate")
    shop = PgShop(db)
    producer = Producer(shop, random.Random(dice.random()))
    with Receiver(random.Random(dice.random())) as receiver:
        sink = {"kind": "http", "url": receiver.url(), "allow": "127.0.0.0/8", "timeout": "600ms",
                "retry": {"base": "20ms", "cap": "200ms"}, "breaker": {"base": "50ms", "cap": "200ms"}}
        relays = [Relay(tmp_path, shop.url, {"out": sink}, [{"sink": "out"}], name="relay-%d" % number,
                        relay={"lease": "1s", "poll": "100ms", "max_messages": 60, "batch": 20, "control_every": "200ms",
                               "worker": "relay-%d" % number}) for number in range(3)]
        storm = Storm(own_pg_server, shop, relays, dice)
        try:
            for relay in relays:
                relay.start()
            producer.start()
            storm.run(SECONDS)
            producer.over.set()
            producer.join()
            receiver.calm = True
            there = {str(id) for (id,) in shop.sql("SELECT id FROM outbox.messages")}
            sent = [row for row in producer.asked if row.id in there]
            assert len(sent) == len(there)
            shop.wait(delivered=len(sent), timeout=60)
            for relay in relays:
                wait_for(relay.started)
                relay.stop()
        finally:
            for relay in relays:
                relay.kill()
        ledger = Ledger(sent, list(receiver.accepted)).check(duplicates=True)
    attempts = shop.all_attempts()
    for id in ledger.twice():
        unknown = sum(outcome in ("lost", "unknown", "interrupted") for _, outcome in attempts[id])
        assert unknown >= ledger.times[id] - 1, (id, attempts[id], ledger.times[id])
    assert len(sent) > 20 * SECONDS
    record_property("show", "%d messages, %d attempts, %d duplicates; %s\n" % (
        len(sent), sum(map(len, attempts.values())), ledger.duplicates(),
        ", ".join("%s %d" % pair for pair in sorted(storm.happened.items()))))
