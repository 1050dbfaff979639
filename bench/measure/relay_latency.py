"""From a producer's commit to the receiver, over loopback HTTP."""
import statistics
import time

from harness.receiver import receiver
from harness.relay import Relay, wait_for

NAME = "relay-latency"
TITLE = "from commit to the receiver over loopback HTTP: after idle, and at a steady 200 a second"
ENQUEUE = "select outbox.enqueue('orders', jsonb_build_object('i', %s::int, 'pad', repeat('x', 180)))"
BARS = {"first p50": 5, "steady p50": 5, "steady p99": 25}  # milliseconds
RATE = 200


def part(values, share):
    return sorted(values)[min(len(values) - 1, int(len(values) * share))]


def first(conn, hook, count):
    """One message at a time, each after a rest in which all went to sleep. Milliseconds from the end of the commit."""
    delays = []
    for i in range(count):
        time.sleep(0.7 + 0.013 * (i % 7))  # longer than the fallback look is far, and never in step with it
        conn.execute(ENQUEUE, (i,))
        committed = time.time()
        came = {}
        wait_for(lambda: came.update(hook.arrivals()) or i in came, 10, "the message")
        delays.append((came[i] - committed) * 1e3)
    return delays


def steady(conn, hook, seconds):
    committed, start = {}, time.monotonic()
    for i in range(RATE * seconds):
        rest = start + i / RATE - time.monotonic()
        if rest > 0:
            time.sleep(rest)
        conn.execute(ENQUEUE, (i,))
        committed[i] = time.time()
    came = {}
    wait_for(lambda: came.update(hook.arrivals()) or len(came) == len(committed), 30, "the last message")
    return [(came[i] - when) * 1e3 for i, when in committed.items() if i >= RATE], len(committed) / (
        time.monotonic() - start)


def measure(bench, report):
    count, seconds = bench.size((100, 20), (10, 4))
    with bench.fresh() as database, receiver() as hook:
        sink = {"kind": "http", "url": hook.url, "allow": "127.0.0.0/8"}
        with bench.connect(database) as conn, Relay(bench, database, {"hook": sink}):
            conn.execute(ENQUEUE, (0,))
            wait_for(lambda: hook.arrivals(), 20, "the first delivery")
            delays = first(conn, hook, count)
            report.sample("first", p50=statistics.median(delays), p99=part(delays, 0.99), worst=max(delays),
                          delays=delays)
            for _ in range(bench.size(3, 1)):
                delays, rate = steady(conn, hook, seconds)
                report.sample("steady", p50=statistics.median(delays), p99=part(delays, 0.99), worst=max(delays),
                              rate=rate)
    print("  milliseconds")
    report.table(["", "p50", "p99", "worst"],
                 [[label] + [report.median(label, field) for field in ("p50", "p99", "worst")]
                  for label in ("first", "steady")])
    for what, bar in BARS.items():
        label, field = what.split()
        report.check("%s, ms" % what, report.median(label, field), bar, at_most=True)
