"""Receivers that misbehave, as the relay lives through them: states right, the relay alive, memory bounded, others served.

Proves: S11 (hard timeout of a delivery), N5 (an outage costs no attempts; other sinks go on), M12, T3, S10 (bounded),
Y8 (the receiver is down). The codes of each answer are tested with the sink itself (tests/sink/test_http_outcome.py).
"""
import time

import pytest

from support.receiver import Hook, hang_up, raw, status
from support.relay import Relay, read_ledger, wait_for
from support.shop import Ledger

TRIES = 3  # so many requests are treated badly, then the receiver is well again
RSS_KIB = 64 * 1024


def drip(hook):
    """An answer that comes a byte at a time, for ever."""
    def behave(_, sock):
        for byte in b"HTTP/1.1 200 OK\r\nX-Slow: " + b"a" * 10000:
            if hook.stopping.wait(0.02):
                return False
            sock.sendall(bytes([byte]))
        return False
    return behave


def silence(hook):
    def behave(_, _sock):
        hook.stopping.wait(20)
        return False
    return behave


def endless(hook):
    """A good status and a body without an end."""
    def behave(_, sock):
        sock.sendall(b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n")
        while not hook.stopping.is_set():
            sock.sendall(b"10000\r\n" + b"x" * 65536 + b"\r\n")
        return False
    return behave


# What it does; how its attempts end; whether the message has arrived then.
BEHAVIOURS = {
    "drips": (drip, "unknown", False),
    "hangs": (silence, "unknown", False),
    "hangs_up": (lambda _: hang_up, "unknown", False),
    "garbage": (lambda _: raw(b"\x00\xff\x17 what is this\r\n" * 100), "unknown", False),
    "endless": (endless, "delivered", True),
    "10_MB": (lambda _: status(200, body=b"y" * 10_000_000), "delivered", True),
    "10_MB_of_503": (lambda _: status(503, body=b"z" * 10_000_000), "retry", False),
}


@pytest.mark.parametrize("name", BEHAVIOURS)
def test_receiver(pg_shop, tmp_path, name):
    make, outcome, arrives = BEHAVIOURS[name]
    ledger = tmp_path / "ledger"
    with Hook() as hook:
        bad = make(hook)
        hook.answer = lambda request, sock: (bad if len(hook.accepted) <= TRIES else status(204))(request, sock)
        sinks = {"bad": {"kind": "http", "url": hook.url(), "allow": "127.0.0.0/8", "timeout": "400ms",
                         "retry": {"base": "20ms", "cap": "50ms"}},
                 "good": {"kind": "stub", "ledger": str(ledger)}}
        relay = Relay(tmp_path, pg_shop.url, sinks, [{"topic": "bad", "sink": "bad"}, {"sink": "good"}], admin=True)
        with relay.running():
            sent = pg_shop.enqueue(12, topic="bad", keys=("a", None), max_attempts=9)
            wait_for(lambda: hook.accepted)
            others = pg_shop.enqueue(50, topic="fine")
            wait_for(lambda: len(read_ledger(ledger)) == 50)
            pg_shop.wait(delivered=62, timeout=30)
            assert relay.rss_kib() < RSS_KIB
        record = pg_shop.all_attempts()
        outcomes = [end for m in sent for _, end in record[m.id]]
        assert outcomes.count("delivered") == 12
        if not arrives:
            # some may have come to a breaker that had opened: these cost nothing
            assert outcomes.count(outcome) >= 1 and set(outcomes) <= {outcome, "delivered", "blocked"}
        taken = Ledger(sent, hook.accepted)
        assert taken.lost() == [] and taken.duplicates() == (0 if arrives else len(outcomes) - 12)
    Ledger(others, read_ledger(ledger)).check()


def test_receiver_down_for_a_while(shop, tmp_path):
    """N5 Y8: nobody listens: the breaker opens, nothing is spent from then on; when it is back all is delivered soon."""
    with Hook() as hook:
        url = hook.url()
    sinks = {"out": {"kind": "http", "url": url, "allow": "127.0.0.0/8", "retry": {"base": "20ms", "cap": "50ms"},
                     "breaker": {"failures": 3, "base": "50ms", "cap": "400ms"}, "concurrency": 2}}
    relay = Relay(tmp_path, shop.url, sinks, [{"sink": "out"}])
    sent = shop.enqueue(40, keys=("a", "b", None))
    with relay.running():
        wait_for(lambda: relay.logged("breaker open: deliveries suspended"))
        time.sleep(2)  # an outage lasts; with spent attempts (5) all would be dead by now
        assert shop.states().get("dead") is None
        spent = [shop.message(m.id, "spent") for m in sent]
        assert sum(spent) <= 6, spent
        port = int(url.split(":")[2].split("/")[0])
        with Hook(port=port) as hook:
            began = time.monotonic()
            shop.wait(delivered=40)
            assert time.monotonic() - began < 20
            Ledger(sent, hook.accepted).check()


def test_timeout_longer_than_the_lease(shop, tmp_path):
    """S11: a delivery that takes longer than the lease lives on renewed leases: one attempt, delivered once."""
    def slow(request, sock):
        hook.stopping.wait(3)
        return status(204)(request, sock)
    with Hook(slow) as hook:
        sinks = {"out": {"kind": "http", "url": hook.url(), "allow": "127.0.0.0/8", "timeout": "10s"}}
        relay = Relay(tmp_path, shop.url, sinks, [{"sink": "out"}], relay={"lease": "1s"}, admin=True)
        (sent,) = shop.enqueue()
        with relay.running():
            shop.wait(delivered=1)
            wait_for(lambda: relay.metric("outbox_leases_renewed_total") >= 1)
        assert shop.attempts(sent.id) == [(1, "delivered")]
        assert len(hook.accepted) == 1
