"""Eleven sinks, one of them down: what that costs the other ten, and how soon it is served again."""
import tempfile
import time

from harness.relay import Relay, wait_for
from tests.support.nginx import PROGRAM, Nginx, free_port

NAME = "relay-outage"
TITLE = "one sink of eleven is down: the throughput of the ten, attempts spent, recovery"
BAR, RECOVERY_BAR = 0.9, 2.0
BREAKER = 5  # failures in a row open it, as configured unless told otherwise; the last of them is not spent
QUIET = "access_log off; location / { return 204; }"
DOWN = "d10"  # of d0 to d10

# Of every `of` messages one for each sink: with 10 nothing is for the one that is down.
FILL = """
select count(*) from outbox.enqueue_many((
    select jsonb_agg(jsonb_build_object('topic', 'd' || i %% %(of)s::int,
        'payload', jsonb_build_object('i', i, 'pad', repeat('x', 181 - length(i::text)))) order by i)
      from generate_series(%(first)s::int, %(last)s::int) i))
"""
SPENT = """
select count(*) filter (where a.outcome in (2, 3, 4, 7)), count(*) filter (where a.outcome = 6)
  from outbox.attempt a join outbox.message m on m.id = a.message_id where m.topic = %s
"""


def fill(bench, database, of, count):
    with bench.connect(database) as conn:
        for first in range(1, count + 1, 1000):
            conn.execute(FILL, {"of": of, "first": first, "last": min(first + 999, count)})
    bench.settle_down(database)


def settings(live, port):
    """The eleventh leads to a port where nobody listens, for the time being."""
    urls = {"d%d" % i: "%sd%d" % (live, i) for i in range(10)}
    urls[DOWN] = "http://127.0.0.1:%d/hook" % port
    sinks = {name: {"kind": "http", "url": url, "allow": "127.0.0.0/8"} for name, url in urls.items()}
    return sinks, [{"topic": name, "sink": name} for name in sinks]


def drained(report, label, relay, count):
    """Until the ten have all that is theirs."""
    wait_for(lambda: relay.metric("outbox_delivered_total") >= count, 300, "the delivery of all that can be delivered",
             every=0.02)
    seconds = time.monotonic() - relay.started
    report.sample(label, rate=count / seconds, seconds=seconds, relay_us=relay.cpu_seconds / count * 1e6,
                  cpu_us=relay.backend_seconds / count * 1e6)


def recover(report, relay, port, count):
    """From the moment it listens again until its first message is settled."""
    with tempfile.TemporaryDirectory(prefix="outbox-bench-") as folder:
        nginx = Nginx(folder, QUIET)
        nginx.port = port
        with nginx:
            start = time.monotonic()
            wait_for(lambda: relay.metric("outbox_delivered_total") > count, 30, "the first delivery after the outage")
            report.sample("recovery", seconds=time.monotonic() - start)
            wait_for(lambda: relay.metric("outbox_delivered_total") >= count * 11 // 10, 60, "all deliveries",
                     every=0.02)
            report.sample("all", seconds=time.monotonic() - start)


def one(bench, report, live, label, of, count):
    port = free_port()
    with bench.fresh() as database:
        fill(bench, database, of, count // 10 * of)
        with Relay(bench, database, *settings(live, port), admin=True) as relay:
            drained(report, label, relay, count)
            if of == 10:
                return
            time.sleep(bench.size(5, 3))  # of pure outage, with probes
            with bench.connect(database, "postgres") as conn:
                spent, blocked = conn.execute(SPENT, (DOWN,)).fetchone()
            report.sample("outage", spent=spent, blocked=blocked)
            recover(report, relay, port, count)
            relay.check_delivered(count // 10 * of)


def measure(bench, report):
    if not PROGRAM:
        raise RuntimeError("nginx is not installed: tools/deps bench")
    count = bench.size(60000, 5000)
    with tempfile.TemporaryDirectory(prefix="outbox-bench-") as folder, Nginx(folder, QUIET) as nginx:
        for _ in range(bench.times(5)):
            one(bench, report, nginx.url("/"), "ten", 10, count)
            one(bench, report, nginx.url("/"), "ten, and one down", 11, count)
    labels = ["ten", "ten, and one down"]
    print("  %d messages for ten sinks; CPU in us per message of theirs" % count)
    report.table(["", "msg/s", "relay CPU", "backend CPU"],
                 [[label] + [report.median(label, field) for field in ("rate", "relay_us", "cpu_us")]
                  for label in labels])
    cpus = [report.median(label, "relay_us") + report.median(label, "cpu_us") for label in labels]
    report.check("the ten with one down / without", report.median(labels[1], "rate") / report.median(labels[0], "rate"),
                 BAR, cpu=cpus[0] / cpus[1])
    report.check("attempts spent by the outage", max(report.values("outage", "spent")), BREAKER - 1, at_most=True)
    report.check("seconds until it is served again", max(report.values("recovery", "seconds")), RECOVERY_BAR,
                 at_most=True)
    report.note("%.0f tries cost their messages nothing; all that waited was delivered %.2f s after it came back" % (
        report.median("outage", "blocked"), report.median("all", "seconds")))
