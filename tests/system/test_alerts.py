"""The faults that the alerts are for, made: a real Prometheus scrapes real relays, and the alert fires.

Proves: S16 (age, dead growth, stuck messages, retry spike), Y6 (critical and warning levels, a relay that does not run).
"""
import contextlib
import os
import signal
import sqlite3
import time

import pytest
import yaml

from support.box import Box
from support.database import ROOT
from support.prometheus import Prometheus
from support.receiver import Receiver, status
from support.relay import Relay, wait_for

MADE_ELSEWHERE = {
    # alert: why no fault is made here; monitoring/alerts_test.yml has its case
    "OutboxPolling": "needs a pooler; test_doorbell has the relay behind one",
    "OutboxShortage": "test_relay_faults takes descriptors away from a relay",
    "OutboxLoopSlow": "would need a loop that is slow for minutes",
    "OutboxQueueBloat": "would need a million dead rows",
    "OutboxLeaseLost": "test_relay_stuck stops a relay for longer than its lease",
}
FIRED = set()


@pytest.fixture(scope="module")
def prometheus(tmp_path_factory):
    with Prometheus(tmp_path_factory.mktemp("prometheus")) as running:
        yield running


class Fault:
    """A store of SQLite with a relay, named as its test, and what Prometheus says about it."""

    def __init__(self, folder, prometheus, name, sinks=None, routes=None, **relay):
        self.prometheus, self.name, self.file = prometheus, name, str(folder / "outbox.db")
        self.box = Box("sqlite:" + self.file)
        self.box.cli("init")
        self.relay = Relay(folder, {name: {"url": self.box.url}}, sinks or {"out": {"kind": "null"}}, routes or [{"sink": "out"}],
                           admin=True, relay={"lease": "2s", **relay})

    def send(self, topic, count=1, *args):
        if count == 1:
            self.box.send(topic, "1", *args)
        else:
            with contextlib.closing(sqlite3.connect(self.file, timeout=20)) as conn, conn:
                conn.executemany("insert into outbox (topic, payload) values (?, ?)", [(topic, str(number)) for number in range(count)])

    def sql(self, *statements):
        with contextlib.closing(sqlite3.connect(self.file, timeout=20)) as conn, conn:
            for statement in statements:
                conn.execute(statement)

    @contextlib.contextmanager
    def watched(self):
        with self.relay.running():
            self.prometheus.scrape(self.relay.port)
            wait_for(self.relay.started, what="a relay that heeds signals")
            wait_for(lambda: self.prometheus.ask("query", query='outbox_leader{store="%s"} == 1' % self.name)["result"] or time.sleep(0.2),
                     timeout=60, what="a scraped leader")
            try:
                yield
            finally:
                self.prometheus.forget(self.relay.port)

    def count(self):
        """A reload counts the queue at once; otherwise that takes up to 15 seconds."""
        self.relay.signal(signal.SIGHUP)

    def fires(self, alert, severity, **labels):
        wait_for(lambda: self.prometheus.fires(alert, severity, store=self.name, **labels) or self.count() or time.sleep(1), timeout=60,
                 what=lambda: "%s (%s, %s); there are %s" % (alert, severity, labels, self.prometheus.ask("alerts")["alerts"]))
        FIRED.add(alert)

    def ends(self, *alerts):
        wait_for(lambda: all(self.silent(alert) for alert in alerts) or self.count() or time.sleep(1), timeout=90, what="the end of the alerts")

    def silent(self, alert):
        return not any(labels.get("store") == self.name for labels in self.prometheus.firing(alert))


@pytest.fixture
def fault(tmp_path, prometheus, request):
    return lambda *args, **more: Fault(tmp_path, prometheus, request.node.name.replace("test_", ""), *args, **more)


OLDER = ["drop trigger if exists outbox_message_update", "update outbox_queue set due = due - 400000000",
         "update outbox_message set created_at = created_at - 400000000"]


def test_the_receiver_is_down(fault):
    """S16 Y6: the breaker opens, attempts fail in a row, retries pile up, the oldest message is old; all ends by itself when it is back."""
    with Receiver(behave=status(500)) as receiver:
        sinks = {"billing": {"kind": "http", "url": receiver.url("/hook"), "allow": ["127.0.0.0/8"], "concurrency": 50}}
        world = fault(sinks, [{"sink": "billing", "retry": {"base": "100ms", "cap": "1s"}}])
        with world.watched():
            world.send("orders", 60)
            world.fires("OutboxSinkDown", "warning", sink="billing")
            world.fires("OutboxSinkDown", "critical", sink="billing")
            world.fires("OutboxSinkFailing", "warning", sink="billing")
            world.fires("OutboxRetrySpike", "warning")
            assert world.silent("OutboxUndelivered") and world.silent("OutboxDeadLetters") and world.silent("OutboxPaused")
            world.sql(*OLDER)
            world.fires("OutboxUndelivered", "warning")
            world.fires("OutboxUndelivered", "critical")
            receiver.behave = status(204)
            world.ends("OutboxSinkDown", "OutboxUndelivered")


def test_messages_die(fault):
    """S16 Y6: more than ten dead letters warn, more than a hundred page; new ones warn."""
    with Receiver(behave=status(400)) as receiver:
        sinks = {"billing": {"kind": "http", "url": receiver.url("/hook"), "allow": ["127.0.0.0/8"]}}
        world = fault(sinks, [{"sink": "billing"}])
        world.send("orders", 11)
        with world.watched():
            world.fires("OutboxDeadLetters", "warning")
            world.fires("OutboxDeadLettersGrow", "warning")
            assert not world.prometheus.fires("OutboxDeadLetters", "critical", store=world.name)
            world.send("orders", 100)
            world.fires("OutboxDeadLetters", "critical")


def test_paused_and_forgotten(fault):
    """S16 Y6 V13: the pause, the backlog behind it, what has been due for long, and a message whose worker died."""
    world = fault()
    world.send("orders")
    assert len(world.box.worker("claim")) == 1
    world.send("orders", 1500)
    world.box.cli("pause", "--topic", "orders", "--reason", "moving")
    world.sql("update outbox_queue set until = until - 3600000000 where until is not null")
    with world.watched():
        world.fires("OutboxPaused", "warning")
        world.fires("OutboxBacklog", "warning")
        world.fires("OutboxStuck", "warning")
        assert world.silent("OutboxLag")
        world.sql(*OLDER)
        world.fires("OutboxLag", "warning")
        world.fires("OutboxLag", "critical")
        world.box.cli("resume", "--topic", "orders")
        world.ends("OutboxPaused", "OutboxBacklog", "OutboxStuck", "OutboxLag")


def test_no_route_and_a_held_key(fault):
    """S16 Y6: a topic that matches no route; a key behind its dead letter; a configuration that is refused."""
    with Receiver(behave=status(400)) as receiver:
        sinks = {"billing": {"kind": "http", "url": receiver.url("/hook"), "allow": ["127.0.0.0/8"]}}
        world = fault(sinks, [{"topic": "orders", "sink": "billing"}])
        world.box.cli("configure", "on_dead", "hold")
        world.send("nowhere")
        for _ in range(2):
            world.send("orders", 1, "--key", "k")
        with world.watched():
            world.fires("OutboxUnrouted", "warning")
            world.fires("OutboxKeysBlocked", "warning")
            world.relay.path.write_text("sinks: 7\n")
            world.relay.signal(signal.SIGHUP)
            world.prometheus.wait_for_alert("OutboxReloadFailed", "warning", instance="127.0.0.1:%d" % world.relay.port)
            FIRED.add("OutboxReloadFailed")


def test_the_store_is_away(db, prometheus, tmp_path):
    """Y6: a relay whose database does not let it in any more."""
    relay = Relay(tmp_path, {"away": {"url": db.url()}}, {"out": {"kind": "null"}}, [{"sink": "out"}], admin=True)
    with relay.running():
        prometheus.scrape(relay.port)
        wait_for(lambda: relay.started() and relay.metric("outbox_store_connected") == 1, what="a connection")
        db.server.psql('ALTER DATABASE "%s" ALLOW_CONNECTIONS false' % db.name)
        db.server.psql("SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE datname = '%s'" % db.name)
        prometheus.wait_for_alert("OutboxStoreUnreachable", "critical", store="away")
        FIRED.add("OutboxStoreUnreachable")
        prometheus.forget(relay.port)
        db.server.psql('ALTER DATABASE "%s" ALLOW_CONNECTIONS true' % db.name)


def test_no_relay(fault, tmp_path):
    """Y6: none was ever there; one runs; it is switched off; it ends, beside another that serves another store."""
    with Prometheus(tmp_path / "prometheus") as alone:
        alone.wait_for_alert("OutboxNoRelay", "critical")
        world = fault()
        world.prometheus = alone
        (tmp_path / "other").mkdir()
        other = Fault(tmp_path / "other", alone, "other")
        with other.watched():
            with world.watched():
                wait_for(lambda: not alone.firing("OutboxNoRelay"), timeout=60, what="the end of the alert")
            alone.wait_for_alert("OutboxStoreWithoutRelay", "critical", store=world.name)
            FIRED.add("OutboxStoreWithoutRelay")
            assert not alone.firing("OutboxNoRelay") and other.silent("OutboxStoreWithoutRelay")
            other.box.cli("tune", "enabled", "off", "--reason", "a test")
            alone.wait_for_alert("OutboxNoRelay", "critical")
    FIRED.add("OutboxNoRelay")


def test_every_alert_was_made_to_fire():
    """S16: but for those that say why not. Runs behind the others of this file."""
    with open(os.path.join(ROOT, "monitoring", "alerts.yml")) as file:
        names = {rule["alert"] for group in yaml.safe_load(file)["groups"] for rule in group["rules"]}
    if len(FIRED) < 2:
        pytest.skip("the tests that make the faults were not run")
    assert FIRED | MADE_ELSEWHERE.keys() == names and not FIRED & MADE_ELSEWHERE.keys()
