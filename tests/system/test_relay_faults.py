"""Whose fault is it? A relay that judges its receivers: one message's fault stops nobody else, a sink's fault costs no
message anything, and many that are down do not stand in the way of one that is up.

Proves: N5 (an outage costs no attempts, other sinks go on), V9 (attempts end), M11 (delays grow), S10 (bounded), S7 (on
record). The rules one by one: tests/unit/core/test_relay_fault.c and the simulator.
"""
import collections
import json
import re
import socket
import threading
import time
import urllib.request

import pytest

from support.receiver import Hook, hang_up, status
from support.relay import Relay, wait_for


def http(hook, **options):
    return {"kind": "http", "url": hook.url(), "allow": "127.0.0.0/8", **options}


def outcomes(shop):
    return collections.Counter(outcome for ends in shop.all_attempts().values() for _, outcome in ends)


@pytest.mark.parametrize("code", [401, 403, 410])
def test_refused_for_what_they_are(shop, tmp_path, code):
    """N5 V9: messages that the receiver forbids among those it accepts: these arrive, those spend their attempts and die."""
    def answer(request, sock):
        return status(code if b"forbidden" in request.body else 204)(request, sock)
    with Hook(answer) as hook:
        sinks = {"out": http(hook, retry={"base": "50ms", "cap": "100ms"})}
        relay = Relay(tmp_path, shop.url, sinks, [{"sink": "out"}])
        with relay.running():
            good = shop.enqueue(40)
            bad = shop.enqueue(8, payload={"forbidden": 1}, max_attempts=3)
            stop = threading.Event()
            more = []

            def produce():
                while not stop.wait(0.02):
                    more.extend(shop.enqueue())
            producer = threading.Thread(target=produce)
            producer.start()
            try:
                wait_for(lambda: shop.states().get("dead") == len(bad))
            finally:
                stop.set()
                producer.join()
            shop.wait(delivered=len(good) + len(more), dead=len(bad))
        record = shop.all_attempts()
        for message in bad:
            ends = [end for _, end in record[message.id]]
            # put off unspent where it was not yet clear; then three that count, the last of them being its end
            assert ends[-1] == "failed" and ends.count("retry") == 2 and set(ends[:-1]) <= {"retry", "blocked"}, ends
            assert ends.count("blocked") <= 3, ends
            assert shop.message(message.id, "spent") == 3
        assert all(record[m.id][-1][1] == "delivered" for m in good + more)


def test_refuses_everybody(shop, tmp_path):
    """N5 S7: credentials that are wrong: nothing is spent, nobody dies, and it is not written down again and again; once they
    are right everything arrives."""
    with Hook(status(401)) as hook:
        sinks = {"out": http(hook, breaker={"base": "20ms", "blocked_cap": "50ms"}, concurrency=4)}
        relay = Relay(tmp_path, shop.url, sinks, [{"sink": "out"}], log={"level": "info"})
        shop.enqueue(30, max_attempts=1)
        with relay.running():
            wait_for(lambda: len(hook.requests) >= 30)
            assert shop.states().get("dead") is None
            lines = [line for line in relay.log().splitlines() if "sink=out" in line]
            assert sum("breaker=open cause=blocked" in line for line in lines) == 1
            assert len(lines) <= 10, lines  # those that were out, one each, and the breaker
            rows = shop.sql("SELECT count(*) FROM %s WHERE outcome <> 'processing'" % shop.attempts_view)[0][0]
            assert rows <= 10, rows  # those that were out when it became clear
            hook.answer = status(204)
            shop.wait(delivered=30)
        assert max(shop.message(id, "spent") for id in shop.all_attempts()) == 1


@pytest.mark.parametrize("code, outcome", [(410, "blocked"), (429, "limited")])
def test_one_recipient_is_asked_ever_less_often(shop, tmp_path, code, outcome):
    """M11 S7 S10: messages that name an address which refuses, or limits: each is tried ever less often, one row says so, and
    others go on."""
    with Hook() as hook:
        hook.answer = lambda request, sock: status(code if request.path == "/gone" else 204)(request, sock)
        sinks = {"out": {"kind": "http", "url_header": "x-url", "url_allow": [hook.url("/")], "allow": "127.0.0.0/8",
                         "retry": {"base": "100ms", "cap": "1m"}}}
        relay = Relay(tmp_path, shop.url, sinks, [{"sink": "out"}])
        gone = shop.enqueue(5, headers=json.dumps({"x-url": hook.url("/gone")}))
        with relay.running():
            wait_for(lambda: all(shop.message(m.id, "deferred") >= 3 for m in gone))
            shop.enqueue(10, headers=json.dumps({"x-url": hook.url("/here")}))
            wait_for(lambda: shop.states().get("delivered") == 10)
            time.sleep(1.5)
        # after 50 to 100 ms, 100 to 200, ... : the sixth comes after 1.5 s at the earliest, and the eighth after 6 s
        for message in gone:
            tries = sum(entry["id"] == message.id for entry in hook.accepted)
            assert 4 <= tries and shop.message(message.id, "deferred") == tries
            assert shop.message(message.id, "status", "spent", "attempts") == ("pending", 0, tries)
            assert shop.attempts(message.id) == [(1, outcome)]
        assert len(hook.accepted) - 10 <= 5 * 12


def test_silence_is_an_outage(shop, tmp_path):
    """N5: a receiver that takes every request and answers none: with five attempts each, nothing is dead, however long it
    lasts; what it did is on record; when it answers again everything arrives."""
    with Hook(hang_up) as hook:
        sinks = {"out": http(hook, retry={"base": "10ms", "cap": "20ms"}, breaker={"base": "20ms", "cap": "50ms"})}
        relay = Relay(tmp_path, shop.url, sinks, [{"sink": "out"}])
        sent = shop.enqueue(4) + shop.enqueue(1, max_attempts=2)
        with relay.running():
            wait_for(lambda: len(hook.requests) >= 60)
            assert shop.states().get("dead") is None
            assert max(shop.message(m.id, "spent") for m in sent) <= 3  # two, and the one that may be under way
            hook.answer = status(204)
            shop.wait(delivered=5)
        assert outcomes(shop)["unknown"] == len(hook.accepted) - 5


def test_a_message_that_silences_dies(shop, tmp_path):
    """V9: a message that makes the receiver hang up, while others are answered, is no outage: it spends its attempts."""
    def answer(request, sock):
        return hang_up(request, sock) if b"poison" in request.body else status(204)(request, sock)
    with Hook(answer) as hook:
        relay = Relay(tmp_path, shop.url, {"out": http(hook, retry={"base": "100ms", "cap": "100ms"})}, [{"sink": "out"}])
        with relay.running():
            (bad,) = shop.enqueue(payload={"poison": 1}, max_attempts=3)
            good = 0
            while shop.message(bad.id, "status") != "dead":
                shop.enqueue()
                good += 1
                assert good < 2000
                time.sleep(0.01)
            shop.wait(delivered=good, dead=1)
        assert [end for _, end in shop.attempts(bad.id)][-1] == "unknown"


def test_fails_everybody(shop, tmp_path):
    """N5 V9: a bad deploy: the receiver answers 500 to everything. Its breaker opens, hardly anything is spent though waits are
    short, nobody dies, and when it works again everything arrives."""
    with Hook(status(500)) as hook:
        sinks = {"out": http(hook, retry={"base": "20ms", "cap": "50ms"}, concurrency=8,
                             breaker={"base": "20ms", "failing_cap": "100ms"})}
        relay = Relay(tmp_path, shop.url, sinks, [{"sink": "out"}])
        shop.enqueue(100)
        with relay.running():
            wait_for(lambda: relay.logged("breaker=open cause=failing code=http_500"))
            shop.enqueue(5, keys=("k",))
            wait_for(lambda: len(hook.requests) >= 40)
            assert shop.states().get("dead") is None
            # four before it opened, and then only probes; one may be under way
            (spent,), = shop.sql("SELECT sum(spent) FROM %s" % shop.messages)
            assert spent <= len(hook.requests) + 1
            hook.answer = status(204)
            shop.wait(delivered=105)
        assert relay.log().count('breaker="half open"') <= len(hook.requests)
        assert outcomes(shop)["failed"] == 0


def test_a_message_that_fails_alone_dies(shop, tmp_path):
    """V9 M12: nothing else goes to the sink, so all its results are failures and its breaker opens. The message is then the
    probe: it spends its attempts by its own delays, and dies when they are spent."""
    with Hook(status(500)) as hook:
        sinks = {"out": http(hook, retry={"base": "10ms", "cap": "20ms"}, breaker={"base": "10ms", "failing_cap": "20ms"})}
        relay = Relay(tmp_path, shop.url, sinks, [{"sink": "out"}])
        (bad,) = shop.enqueue(max_attempts=12)
        with relay.running():
            shop.wait(dead=1)
        assert relay.logged("cause=failing")
        assert shop.message(bad.id, "spent") == 12
        assert 12 <= len(hook.requests) <= 13  # the one that opened it cost nothing


def test_one_that_fails_among_accepted(shop, tmp_path):
    """N5 V9: a message that the receiver answers with 500, among others that it accepts: it dies, no breaker opens."""
    def answer(request, sock):
        return status(500 if b"poison" in request.body else 204)(request, sock)
    with Hook(answer) as hook:
        relay = Relay(tmp_path, shop.url, {"out": http(hook, retry={"base": "50ms", "cap": "50ms"})}, [{"sink": "out"}])
        with relay.running():
            good = len(shop.enqueue(10))
            (bad,) = shop.enqueue(payload={"poison": 1}, max_attempts=8)
            while shop.message(bad.id, "status") != "dead":
                shop.enqueue()
                good += 1
                assert good < 2000
                time.sleep(0.01)
            shop.wait(delivered=good, dead=1)
        assert not relay.logged("breaker=open")
        assert len(shop.attempts(bad.id)) == 8


def free_port():
    with socket.create_server(("127.0.0.1", 0)) as sock:
        return sock.getsockname()[1]


def deliveries(relay):
    """How many were handed over, by sink."""
    with urllib.request.urlopen("http://127.0.0.1:%d/metrics" % relay.port) as answer:
        page = answer.read().decode()
    found = re.findall(r'^outbox_delivery_seconds_count{.*sink="(.*)"} (\d+)$', page, re.M)
    return collections.defaultdict(int, {name: int(count) for name, count in found})


def test_many_are_down_and_one_is_up(pg_shop, tmp_path):
    """N5 S10: three hundred sinks that nobody listens at, each with messages; the one that is up gets its own as if it
    were alone, and the store is asked for probes of many at once."""
    down, port = 300, free_port()
    with Hook() as hook:
        closed = {"kind": "http", "url": "http://127.0.0.1:%d/" % port, "allow": "127.0.0.0/8"}
        sinks = {"down%d" % i: {**closed, "breaker": {"failures": 1, "base": "100ms", "cap": "200ms"}} for i in range(down)}
        sinks["up"] = http(hook)
        routes = [{"topic": name, "sink": name} for name in sinks]
        relay = Relay(tmp_path, pg_shop.url, sinks, routes, log={"level": "warn"}, admin=True)
        with pg_shop.connect() as conn:
            conn.execute("SELECT outbox.enqueue(topic => 'down' || i %% %s, payload => '{}'::jsonb)"
                         " FROM generate_series(1, %s) i", [down, 4 * down])
        with relay.running():
            wait_for(lambda: relay.log().count("breaker open: deliveries suspended") == down)
            time.sleep(2)  # after the first rush it is calm again, and its counts are in the metrics
            claims, began = relay.metric("outbox_claims_total"), time.monotonic()
            for _ in range(40):
                pg_shop.enqueue(topic="up")
                time.sleep(0.05)
            wait_for(lambda: len(hook.accepted) == 40, timeout=30)
            lasted = time.monotonic() - began
            # one claim for each that comes, and 20 a second for all the probes; alone they would be 1,500 a second
            assert relay.metric("outbox_claims_total") - claims < 2 * 40 + 45 * lasted + 20
            wait_for(lambda: sum(count >= 2 for name, count in deliveries(relay).items() if name != "up") == down, 15,
                     "each has its turn")
        states = pg_shop.states()
        assert states == {"pending": 4 * down, "delivered": 40}


def test_whose_limit_holds(shop, tmp_path):
    """V9 V11 M21: message, route, sink, namespace: the first that says how many attempts wins, be it more or fewer; `show` tells
    whose it is."""
    shop.cli("configure", "max_attempts", "2")
    sinks = {"out": {"kind": "stub", "obey_payload": True, "retry": {"base": "10ms", "cap": "20ms"}, "max_attempts": 5, "breaker": {"failures": 0}},
             "plain": {"kind": "stub", "obey_payload": True, "retry": {"base": "10ms", "cap": "20ms"}, "breaker": {"failures": 0}}}
    routes = [{"topic": "routed", "sink": "out", "max_attempts": 4}, {"topic": "plain", "sink": "plain"}, {"sink": "out"}]
    relay = Relay(tmp_path, shop.url, sinks, routes)
    wanted = {"routed": 4, "orders": 5, "plain": 2}
    sent = {topic: shop.enqueue(topic=topic, payload={"stub": "retry"})[0] for topic in wanted}
    (own,) = shop.enqueue(payload={"stub": "retry"}, max_attempts=3)
    (waits,) = shop.enqueue(topic="plain", payload={"stub": "accept"}, max_attempts=9)
    assert "0 of 9 spent (limit of the message)" in shop.cli("show", waits.id).stdout
    with relay.running():
        shop.wait(dead=4, delivered=1)
    assert {topic: shop.message(message.id, "spent") for topic, message in sent.items()} == wanted
    assert shop.message(own.id, "spent", "max_attempts", "max_attempts_from") == (3, 3, "message")


def test_limit_and_deferral_are_shown(shop, tmp_path):
    """V13 M11: whose limit holds for a message that waits, and that it was put off, in `show` and `list`."""
    sinks = {"out": {"kind": "stub", "obey_payload": True, "max_attempts": 40, "retry": {"base": "1m"}}}
    relay = Relay(tmp_path, shop.url, sinks, [{"sink": "out"}])
    (failed,) = shop.enqueue(payload={"stub": "retry"})
    (limited,) = shop.enqueue(payload={"stub": "limited@recipient"})
    with relay.running():
        wait_for(lambda: shop.message(failed.id, "spent") == 1 and shop.message(limited.id, "deferred") == 1)
        wait_for(lambda: shop.message(failed.id, "status") == "pending")
    assert "1 of 40 spent (limit of the sink)" in shop.cli("show", failed.id).stdout
    assert "deferred        1 times in a row" in shop.cli("show", limited.id).stdout
    assert "deferred=1" in shop.cli("list").stdout
