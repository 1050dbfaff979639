"""A reload touches what changed, and nothing else: deliveries under way are finished once, others go on meanwhile.

Proves: M21 (SIGHUP), M15 (what is out is finished), N2 (order per key over reloads), N5 (others go on), V11 (what changed is
said), V12 (log).
"""
import re
import signal
import threading
import time

import pytest

from support.receiver import Hook, certificate, status, tls_context
from support.relay import Relay, wait_for
from support.shop import Ledger


def http(hook, **more):
    return {"kind": "http", "url": hook.url(), "allow": "127.0.0.0/8", "timeout": "20s", **more}


def held(gate):
    """Answers when the gate is opened."""
    def behave(request, sock):
        gate.wait(30)
        return status(204)(request, sock)
    return behave


def reload(relay):
    times = relay.log().count("msg=reloaded")
    relay.signal(signal.SIGHUP)
    wait_for(lambda: relay.log().count("msg=reloaded") > times)


def change(relay, sink, **options):
    relay.config["sinks"][sink].update(options)
    relay.write()


def test_slow_deliveries_outlive_a_reload(shop, tmp_path):
    """M21 M15: slower than relay.grace, under a sink that changes and one that does not: each is delivered once, by its
    first attempt, and nothing waits for them."""
    gate = threading.Event()
    with Hook(held(gate)) as changed, Hook(held(gate)) as same, Hook() as quick:
        sinks = {"changed": http(changed), "same": http(same), "quick": http(quick)}
        routes = [{"topic": name, "sink": name} for name in sinks]
        relay = Relay(tmp_path, shop.url, sinks, routes, relay={"grace": "100ms"}, admin=True)
        with relay.running():
            sent = shop.enqueue(3, topic="changed") + shop.enqueue(3, topic="same")
            changed.wait(lambda hook: len(hook.accepted) == 3)
            same.wait(lambda hook: len(hook.accepted) == 3)
            change(relay, "changed", method="PUT")
            reload(relay)
            shop.enqueue(5, topic="quick")
            shop.wait(delivered=5, processing=6)
            wait_for(lambda: relay.metric("outbox_in_flight") == 6)
            gate.set()
            shop.wait(delivered=11)
            wait_for(lambda: relay.logged("deliveries of an earlier configuration finished"))
            shop.enqueue(topic="changed")
            shop.wait(delivered=12)
            wait_for(lambda: relay.metric("outbox_in_flight") == 0)
        assert set(map(tuple, shop.all_attempts().values())) == {((1, "delivered"),)}
        Ledger(sent, changed.accepted[:3] + same.accepted).check()
        assert [request.method for request in changed.requests] == ["POST"] * 3 + ["PUT"]
    log = relay.log()
    assert 'msg="configuration changed" option=sinks.changed.method before=POST after=PUT' in log
    assert "sinks_kept=2 sinks_opened=1" in log


def test_a_restart_is_asked_for_where_it_takes_one(shop, tmp_path):
    """V11: what a reload cannot change is said, with every reload until there is a restart, or it is taken back."""
    def restarts():
        return re.findall(r'restart the relay to apply it" option=(\S+)', relay.log())

    with Hook() as hook:
        relay = Relay(tmp_path, shop.url, {"out": http(hook, headers={"x-token": "hush one"})}, [{"sink": "out"}])
        with relay.running():
            wait_for(relay.started)
            relay.config["relay"]["worker"] = "another"
            relay.config["admin"] = {"listen": "127.0.0.1:1"}
            relay.write()
            reload(relay)
            assert sorted(restarts()) == ["admin.listen", "relay.worker"]
            del relay.config["relay"]["worker"]
            relay.config["sinks"]["out"]["headers"] = {"x-token": "hush two"}
            relay.write()
            reload(relay)
            assert sorted(restarts()) == ["admin.listen", "admin.listen", "relay.worker"]
    assert "options_changed=0" in relay.log() and "options_changed=1" in relay.log()
    assert "option=sinks.out.headers.x-token" in relay.log() and "hush" not in relay.log()


def test_an_unchanged_sink_keeps_its_connection(shop, tmp_path):
    """M21: twenty reloads that change another sink: this one has one connection all the time, and the store too."""
    with Hook() as other, Hook() as same:
        sinks = {"other": http(other), "same": http(same, concurrency=1)}
        relay = Relay(tmp_path, shop.url, sinks, [{"topic": "other", "sink": "other"}, {"sink": "same"}], admin=True)
        with relay.running():
            shop.enqueue()
            shop.wait(delivered=1)
            for turn in range(20):
                change(relay, "other", headers={"X-Turn": str(turn)})
                reload(relay)
            shop.enqueue(5)
            shop.enqueue(1, topic="other")
            shop.wait(delivered=7)
            assert relay.metric("outbox_store_reconnects_total") == 0
            wait_for(lambda: relay.log().count("deliveries of an earlier configuration finished") == 20)
        assert (len(same.requests), same.connections) == (6, 1)
        assert other.requests[0].header("X-Turn") == "19"


def test_a_changed_certificate_is_read_again(pg_shop, tmp_path):
    """M21: the configuration is the same, but the file that it names is not."""
    cert, key = certificate(tmp_path, stem="new")
    trusted = tmp_path / "trusted.pem"
    old, _ = certificate(tmp_path, stem="old")
    trusted.write_bytes(open(old, "rb").read())
    with Hook(tls=tls_context(cert, key)) as hook:
        relay = Relay(tmp_path, pg_shop.url, {"out": http(hook, tls={"ca": str(trusted)})}, [{"sink": "out"}])
        with relay.running():
            pg_shop.enqueue()
            wait_for(lambda: relay.logged("breaker open: deliveries suspended") or relay.logged("msg=retry"))
            reload(relay)
            assert relay.logged("sinks_kept=1 sinks_opened=0")
            trusted.write_bytes(open(cert, "rb").read())
            reload(relay)
            assert relay.logged("sinks_kept=0 sinks_opened=1")
            pg_shop.wait(delivered=1)


def test_order_over_reloads(shop, tmp_path):
    """N2 M21: fifteen reloads in a row while keys flow, half of them with another sink: all once, in order."""
    def answer(request, sock):
        time.sleep(0.005)
        return status(204)(request, sock)
    with Hook(answer) as hook:
        relay = Relay(tmp_path, shop.url, {"out": http(hook, concurrency=8)}, [{"sink": "out"}],
                      relay={"grace": "1ms", "prefetch": True})
        sent = shop.enqueue(400, keys=("a", "b", "c", "d", None))
        with relay.running():
            wait_for(relay.started)
            for turn in range(15):
                wait_for(lambda: len(hook.accepted) >= min(turn * 25, 400))
                if turn % 2:
                    change(relay, "out", headers={"X-Turn": str(turn)})
                reload(relay)
            shop.wait(delivered=400)
        Ledger(sent, hook.accepted).check()
        outcomes = {tuple(outcome for _, outcome in attempts) for attempts in shop.all_attempts().values()}
        assert outcomes == {("delivered",)}, "what was only claimed goes back untold of"


def test_concurrency_holds_over_a_reload(shop, tmp_path):
    """S10 M21: what the old configuration has out counts for the new one."""
    gate = threading.Event()
    with Hook(held(gate)) as hook:
        relay = Relay(tmp_path, shop.url, {"out": http(hook, concurrency=3)}, [{"sink": "out"}])
        with relay.running():
            shop.enqueue(12)
            hook.wait(lambda hook: len(hook.accepted) == 3)
            for turn in range(3):
                change(relay, "out", headers={"X-Turn": str(turn)})
                reload(relay)
            time.sleep(0.5)
            assert len(hook.accepted) == 3
            gate.set()
            shop.wait(delivered=12)


def test_reloads_do_not_pile_up(shop, tmp_path):
    """S10 M21: every reload leaves a delivery behind. A few drain at once; then a reload waits, and the last one counts."""
    gate = threading.Event()
    with Hook(held(gate)) as hook:
        relay = Relay(tmp_path, shop.url, {"out": http(hook, concurrency=50)}, [{"sink": "out"}])
        with relay.running():
            for turn in range(8):
                shop.enqueue()
                hook.wait(lambda hook: len(hook.accepted) == turn + 1)
                reload(relay)
            shop.enqueue()
            hook.wait(lambda hook: len(hook.accepted) == 9)
            for turn in range(3):
                change(relay, "out", headers={"X-Turn": str(turn)})
                relay.signal(signal.SIGHUP)
            wait_for(lambda: relay.logged("reload postponed: deliveries of earlier configurations are still in flight"))
            assert relay.log().count("msg=reloaded") == 8
            gate.set()
            shop.wait(delivered=9)
            wait_for(lambda: relay.log().count("msg=reloaded") == 9)
            shop.enqueue()
            shop.wait(delivered=10)
        assert hook.requests[-1].header("X-Turn") == "2"


@pytest.mark.parametrize("draining", [False, True])
def test_a_shutdown_costs_no_attempt(shop, tmp_path, draining):
    """M15: with one attempt allowed, a restart in mid-delivery makes no dead letter; also for what a reload left behind."""
    gate = threading.Event()
    with Hook(held(gate)) as hook:
        relay = Relay(tmp_path, shop.url, {"out": http(hook, max_attempts=1)}, [{"sink": "out"}], relay={"grace": "100ms"})
        with relay.running():
            (sent,) = shop.enqueue()
            hook.wait(lambda hook: len(hook.accepted) == 1)
            if draining:
                reload(relay)
        assert shop.message(sent.id, "status", "spent") == ("pending", 0)
        gate.set()
        relay.until_empty()
        assert shop.attempts(sent.id) == [(1, "interrupted"), (2, "delivered")]
