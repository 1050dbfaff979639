"""kill -9 of the relay between any two steps that outlive it, on both stores, with both kinds of sinks; and SIGSTOP.

Proves: V10 M8 S14 (what a dead relay held is taken over), N7 (the ledger balances), N2 (first acceptances of a key in
order), M10 (a late worker settles nothing), S6 (attempt numbers never repeat), Y8 (the relay crashes mid-work).

The points (OUTBOX_CRASH_AT, src/base/crash.h): the claim is back; before a message is handed to its sink; the receiver has
it and has not answered; its answer was read; the settle was asked for; the settle is known to be done.
OUTBOX_RELAY_CRASHES: so many rounds of crashes at changing moments (1; more in the long proof).
"""
import os
import signal
import time

import pytest

from support.receiver import Hook, status
from support.relay import Relay, read_ledger, wait_for
from support.shop import Ledger

ROUNDS = int(os.environ.get("OUTBOX_RELAY_CRASHES", "1"))
KEYS = ("a", "b", "c", None)
COUNT = 32
# The point, and at which visit of it the relay dies. Duplicates can come of those that say so only.
POINTS = [("claimed", 1, False), ("handing", 1, False), ("sent", 9, True), ("replied", 9, True), ("settling", 2, True),
          ("settled", 2, True)]
table = []


class StubSink:
    kind = "stub"

    def __init__(self, folder):
        self.path = folder / "ledger"
        self.settings = {"kind": "stub", "ledger": str(self.path)}

    def crash(self, relay, point, visit):
        relay.start("--until-empty", OUTBOX_CRASH_AT="%s:%d" % (point, visit))
        return relay.wait()

    def accepted(self):
        return read_ledger(self.path)

    def close(self):
        pass


class HttpSink:
    kind = "http"

    def __init__(self, _folder):
        self.hook = Hook()
        self.settings = {"kind": "http", "url": self.hook.url(), "allow": "127.0.0.0/8"}

    def crash(self, relay, point, visit):
        if point != "sent":
            return StubSink.crash(self, relay, point, visit)
        # Nobody but the receiver can tell this moment.
        before = len(self.hook.accepted)

        def kill(request, sock):
            if len(self.hook.accepted) < before + visit:
                return status(204)(request, sock)
            relay.process.kill()
            return False
        self.hook.answer = kill
        relay.start("--until-empty")
        code = relay.wait()
        self.hook.answer = status(204)
        return code

    def accepted(self):
        return list(self.hook.accepted)

    def close(self):
        self.hook.close()


@pytest.fixture(params=[StubSink, HttpSink], ids=["stub", "http"])
def sink(request, tmp_path):
    sink = request.param(tmp_path)
    yield sink
    sink.close()


def unknown_only(shop, accepted):
    """A message that was accepted more than once had attempts whose end nobody told the store; the last was told."""
    attempts = shop.all_attempts()
    for id, outcomes in attempts.items():
        numbers = [number for number, _ in outcomes]
        assert numbers == sorted(set(numbers)), (id, outcomes)
        assert outcomes[-1][1] == "delivered" and {outcome for _, outcome in outcomes[:-1]} <= {"lost"}, (id, outcomes)
        seen = [entry["attempt"] for entry in accepted if entry["id"] == id]
        assert set(seen) <= set(numbers) and numbers[-1] in seen, (id, outcomes, seen)
    return sum(outcome == "lost" for outcomes in attempts.values() for _, outcome in outcomes)


@pytest.mark.parametrize("point,visit,duplicates", POINTS, ids=[point for point, _, _ in POINTS])
def test_crash(shop, sink, point, visit, duplicates, tmp_path):
    relay = Relay(tmp_path, shop.url, {"out": {"concurrency": 4, "batch": 2, **sink.settings}}, [{"sink": "out"}],
                  relay={"lease": "1s", "poll": "50ms", "batch": 8, "max_messages": 8, "run": 4})
    sent, codes = [], []
    began = time.monotonic()
    try:
        for turn in range(ROUNDS):
            sent += shop.enqueue(COUNT, keys=KEYS, max_attempts=1000)
            codes.append(sink.crash(relay, point, visit + turn % 3 if duplicates else visit))
        relay.until_empty()
    finally:
        relay.kill()
    assert set(codes) == {-signal.SIGKILL}, relay.log()[-2000:]
    assert shop.states() == {"delivered": len(sent)}
    ledger = Ledger(sent, sink.accepted()).check(duplicates)
    lost = unknown_only(shop, ledger.accepted)
    if not point.startswith("settl"):
        assert lost > 0, "the crash left nothing behind: it did not come where it should"
    assert ledger.duplicates() <= lost
    if point in ("sent", "replied"):
        assert ledger.duplicates() > 0, "the receiver had it, the store did not know: it must come again"
    table.append((point, shop.kind, sink.kind, len(sent), lost, ledger.duplicates(), time.monotonic() - began))


def test_the_table(record_property, capsys):
    """Every point on every store with every sink was crashed at, and the ledger balanced. Prints what came of it."""
    if len(table) < len(POINTS) * 4:
        pytest.skip("shows what the tests above did, when all of them ran and passed")
    lines = ["%-10s %-11s %-5s %9s %13s %10s %5s %9s" % ("killed at", "store", "sink", "messages", "attempts lost",
                                                        "duplicates", "lost", "in order")]
    for point, store, kind, sent, gone, twice, _ in sorted(table, key=lambda row: [p for p, _, _ in POINTS].index(row[0])):
        lines.append("%-10s %-11s %-5s %9d %13d %10d %5d %9s" % (point, store, kind, sent, gone, twice, 0, "yes"))
    text = "\n".join(lines) + "\n"
    record_property("show", text)
    with capsys.disabled():
        print("\n" + text)


# ---- asleep past the lease ----


def test_sleeper_settles_nothing(pg_shop, tmp_path):
    """M10 V10: a relay is stopped (SIGSTOP) with deliveries out, until its leases are over; another one takes all over. The
    first wakes: it settles nothing that is not its own any more, and sends nothing of what it only held."""
    slow, fast = tmp_path / "slow", tmp_path / "fast"
    settings = {"lease": "1s", "poll": "50ms", "batch": 20, "max_messages": 20}
    first = Relay(tmp_path, pg_shop.url, {"out": {"kind": "stub", "ledger": str(slow), "delay": "300ms",
                                                  "concurrency": 4}},
                  [{"sink": "out"}], name="first", relay=settings)
    second = Relay(tmp_path, pg_shop.url, {"out": {"kind": "stub", "ledger": str(fast)}}, [{"sink": "out"}],
                   name="second", relay=settings)
    sent = pg_shop.enqueue(20, keys=("a", "b", None, None))
    with first.running():
        wait_for(lambda: first.log().count("msg=sent") >= 4)
        first.signal(signal.SIGSTOP)
        begun = len(read_ledger(slow))
        claimed = {m.id for m in sent if any("msg=claimed" in line and m.id in line for line in first.log().splitlines())}
        second.until_empty()
        assert pg_shop.states() == {"delivered": 20}
        record = pg_shop.all_attempts()
        first.signal(signal.SIGCONT)
        wait_for(lambda: first.logged('msg="lease lost"'))
        more = pg_shop.enqueue(4)
        pg_shop.wait(delivered=24)
    after = pg_shop.all_attempts()
    assert {id: after[id] for id in record} == record, "a late settle changed the record"
    settled = [id for id in claimed if record[id] == [(1, "delivered")]]
    assert len(settled) <= begun, "only what it had sent before it slept can count as its own"
    taken = [record[id] for id in claimed - set(settled)]
    assert len(taken) >= 4 and all(outcomes[0] == (1, "lost") for outcomes in taken)
    late = [entry for entry in read_ledger(slow)[begun:] if entry["id"] in record]
    assert len(late) <= 4, "what it only held must not be sent any more"
    assert {entry["attempt"] for entry in late} <= {1}
    everything = sorted(read_ledger(slow) + read_ledger(fast), key=lambda entry: entry["time_us"])
    Ledger(sent + more, everything).check(duplicates=True)


def test_sleeper_alone(shop, tmp_path):
    """M10: nobody took over while it slept: what it had sent may count when it wakes; the rest is claimed anew, and the
    store writes down what was lost."""
    ledger = tmp_path / "ledger"
    relay = Relay(tmp_path, shop.url, {"out": {"kind": "stub", "ledger": str(ledger), "delay": "200ms", "concurrency": 4}},
                  [{"sink": "out"}], relay={"lease": "1s", "poll": "50ms"})
    sent = shop.enqueue(24, keys=KEYS)
    with relay.running():
        wait_for(lambda: relay.log().count("msg=sent") >= 4)
        relay.signal(signal.SIGSTOP)
        time.sleep(1.5)  # longer than the lease
        relay.signal(signal.SIGCONT)
        shop.wait(delivered=24)
    ended = Ledger(sent, read_ledger(ledger)).check(duplicates=True)
    assert ended.duplicates() <= unknown_only(shop, ended.accepted)
