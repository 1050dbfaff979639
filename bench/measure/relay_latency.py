"""From a producer's commit to the receiver, over loopback HTTP.

Beside it the least that any relay can do that wakes by NOTIFY and writes down what it takes before it sends it: hear,
commit one update, post. On a machine that is busy otherwise both wait for a core, and only the ratio says something.
"""
import collections
import contextlib
import http.client
import select
import statistics
import threading
import time

from harness.receiver import receiver
from harness.relay import Relay, wait_for

NAME = "relay-latency"
TITLE = "from commit to the receiver over loopback HTTP: after idle, and at a steady 200 a second"
ENQUEUE = "select outbox.enqueue('orders', jsonb_build_object('i', %s::int, 'pad', repeat('x', 180)))"
BARS = {"first p50": 5, "steady p50": 5, "steady p99": 25}  # milliseconds
RATE = 200


PLAIN = "insert into plain (i, pad) values (%s, repeat('x', 180))"
PLAIN_TABLE = """
create table plain (i int, pad text, taken boolean not null default false);
create index on plain (i) where not taken;
create function plain_ring() returns trigger language plpgsql as
    $$ begin perform pg_notify('plain', new.i::text); return null; end $$;
create trigger plain_ring after insert on plain for each row execute function plain_ring();
"""


class Plain(threading.Thread):
    """The least that a relay can do, on a thread of its own."""

    def __init__(self, bench, database, hook):
        super().__init__(daemon=True)
        self.conn, self.hook, self.over = bench.connect(database), hook, False
        self.heard = collections.deque()
        self.conn.add_notify_handler(lambda note: self.heard.append(int(note.payload)))  # while a statement runs
        self.conn.execute("listen plain")

    def run(self):
        post = http.client.HTTPConnection("127.0.0.1", self.hook.port)
        while not self.over:
            if not self.heard and not select.select([self.conn.fileno()], [], [], 0.1)[0]:
                continue
            self.conn.pgconn.consume_input()
            while (note := self.conn.pgconn.notifies()):
                self.heard.append(int(note.extra))
            while self.heard:
                number = self.heard.popleft()
                self.conn.execute("update plain set taken = true where i = %s and not taken", (number,))
                post.request("POST", "/hook", '{"i": %d}' % number)
                post.getresponse().read()


def part(values, share):
    return sorted(values)[min(len(values) - 1, int(len(values) * share))]


def first(conn, hook, statement, count):
    """One message at a time, each after a rest in which all went to sleep. Milliseconds from the end of the commit."""
    delays = []
    for i in range(count):
        time.sleep(0.7 + 0.013 * (i % 7))  # longer than the fallback look is far, and never in step with it
        conn.execute(statement, (i,))
        committed = time.time()
        came = {}
        wait_for(lambda: came.update(hook.arrivals()) or i in came, 10, "the message")
        delays.append((came[i] - committed) * 1e3)
    return delays


def steady(conn, hook, statement, seconds):
    committed, start = {}, time.monotonic()
    for i in range(RATE * seconds):
        rest = start + i / RATE - time.monotonic()
        if rest > 0:
            time.sleep(rest)
        conn.execute(statement, (i,))
        committed[i] = time.time()
    came = {}
    wait_for(lambda: came.update(hook.arrivals()) or len(came) == len(committed), 30, "the last message")
    return [(came[i] - when) * 1e3 for i, when in committed.items() if i >= RATE]


def keep(report, label, delays):
    report.sample(label, p50=statistics.median(delays), p99=part(delays, 0.99), worst=max(delays))


@contextlib.contextmanager
def plain(bench, database, hook, conn):
    conn.execute(PLAIN_TABLE)
    side = Plain(bench, database, hook)
    side.start()
    try:
        yield
    finally:
        side.over = True
        side.join()
        side.conn.close()


def one(bench, report):
    count, seconds = bench.size((30, 10), (10, 4))
    with bench.fresh() as database, receiver() as hook, bench.connect(database) as conn:
        with plain(bench, database, hook, conn):
            keep(report, "least, first", first(conn, hook, PLAIN, count))
        sink = {"kind": "http", "url": hook.url, "allow": "127.0.0.0/8"}
        with Relay(bench, database, {"hook": sink}):
            conn.execute(ENQUEUE, (0,))
            wait_for(hook.arrivals, 20, "the first delivery")
            keep(report, "first", first(conn, hook, ENQUEUE, count))
            keep(report, "steady", steady(conn, hook, ENQUEUE, seconds))


def measure(bench, report):
    for _ in range(bench.times(3)):
        one(bench, report)
    print("  milliseconds")
    report.table(["", "p50", "p99", "worst"],
                 [[label] + [report.median(label, field) for field in ("p50", "p99", "worst")]
                  for label in ("least, first", "first", "steady")])
    for what, bar in BARS.items():
        label, field = what.split()
        report.check("%s, ms" % what, report.median(label, field), bar, at_most=True)
    report.note("first: p50 %.2f x the least" % (report.median("first", "p50") / report.median("least, first", "p50")))
