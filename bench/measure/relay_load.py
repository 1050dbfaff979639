"""From a producer's commit to the delivery, over the load: one curve from an idle relay to a busy one.

Beside it, in the same run, the least that anybody does: a bare table, polled every 5 ms. Producers are pgbench's clients,
one message a transaction, at a fixed rate; its log says when each commit was done. Deliveries go into a pipe.
"""
import contextlib
import os
import re
import subprocess
import tempfile
import threading
import time

from harness.relay import Relay, cpu_of, wait_for

NAME = "relay-load"
TITLE = "from commit to delivery over the load, beside a bare table that is polled every 5 ms"
RATES = (1, 10, 100, 500, 1000, 2000, 5000)
CLIENTS = 4
POLL = 0.005
BARE_TABLE = "create table bare (id bigint generated always as identity primary key, payload jsonb not null)"
PAYLOAD = "jsonb_build_object('c', :client_id::int, 'n', :n::int, 'pad', repeat('x', 170))"
SCRIPTS = {"relay": "\\set n :n + 1\nselect id from outbox.enqueue('orders', %s);\n" % PAYLOAD,
           "bare": "\\set n :n + 1\ninsert into bare (payload) values (%s);\n" % PAYLOAD}
NUMBERS = {name: re.compile(rb'"%s": ?(\d+)' % name.encode()) for name in "cn"}
P50_BAR = 3         # milliseconds, at every rate
HUMP_BAR = 2        # the worst p50 / that of a calm relay, which is rung for every message
CALM = 100
SHARE = (("p50", 0.5), ("p95", 0.95), ("p99", 0.99))


class Arrivals:
    """{(client, number): when}; of several, the first."""

    def __init__(self):
        self.seen = {}

    def add(self, text, now):
        key = tuple(int(NUMBERS[name].search(text).group(1)) for name in "cn")
        self.seen.setdefault(key, now)


class Bare(threading.Thread):
    """Takes what there is, delivers it, deletes it; then rests until 5 ms after it began."""

    def __init__(self, bench, database):
        super().__init__(daemon=True)
        self.conn, self.over, self.arrivals = bench.connect(database, "postgres"), False, Arrivals()
        self.pid = self.conn.info.backend_pid

    def run(self):
        while not self.over:
            began = time.monotonic()
            with self.conn.transaction():
                rows = self.conn.execute("select id, payload::text from bare order by id limit 500 "
                                         "for update skip locked").fetchall()
                now = time.time()
                for _, text in rows:
                    self.arrivals.add(text.encode(), now)
                if rows:
                    self.conn.execute("delete from bare where id = any(%s)", ([row[0] for row in rows],))
            time.sleep(max(0, began + POLL - time.monotonic()))
        self.conn.close()


class Pipe(threading.Thread):
    """Reads what the relay delivers."""

    def __init__(self, fd):
        super().__init__(daemon=True)
        self.fd, self.arrivals = fd, Arrivals()

    def run(self):
        rest = b""
        while (data := os.read(self.fd, 1 << 16)):
            now = time.time()
            *lines, rest = (rest + data).split(b"\n")
            for line in lines:
                self.arrivals.add(line, now)
        os.close(self.fd)


@contextlib.contextmanager
def bare(bench, database):
    with bench.connect(database, "postgres") as conn:
        conn.execute(BARE_TABLE)
    poller = Bare(bench, database)
    poller.start()
    try:
        yield poller.arrivals, lambda: (0, cpu_of(poller.pid))
    finally:
        poller.over = True
        poller.join()


@contextlib.contextmanager
def relayed(bench, database):
    read, write = os.pipe()
    pipe = Pipe(read)
    with Relay(bench, database, {"out": {"kind": "stdout", "format": "payload"}}, stdout=write) as relay:
        os.close(write)
        pipe.start()
        time.sleep(1)  # until its backends are known
        yield pipe.arrivals, lambda: (cpu_of(relay.process.pid), relay.backend_seconds)
    pipe.join()


SIDES = {"bare": bare, "relay": relayed}


def produce(bench, database, side, rate, seconds):
    """{(client, number): when its commit was done}"""
    with tempfile.TemporaryDirectory(prefix="outbox-bench-") as folder:
        script = os.path.join(folder, "script")
        with open(script, "w") as file:
            file.write(SCRIPTS[side])
        line = [os.path.join(bench.server.bindir, "pgbench"), "-n", "-M", "prepared", "-c", str(min(CLIENTS, rate)), "-T",
                str(seconds), "-R", str(rate), "-D", "n=0", "-l", "--log-prefix", os.path.join(folder, "log"), "-f", script,
                bench.server.conninfo(database)]
        done = subprocess.run(line, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
        if done.returncode != 0:
            raise RuntimeError("pgbench failed:\n" + done.stdout)
        committed = {}
        for name in os.listdir(folder):
            if not name.startswith("log"):
                continue
            with open(os.path.join(folder, name)) as file:
                for client, number, _, _, seconds_, us, *_ in map(str.split, file):
                    committed[int(client), int(number)] = int(seconds_) + int(us) / 1e6
        return committed


def part(values, share):
    return values[min(len(values) - 1, int(len(values) * share))]


def deliver(bench, database, side, arrivals, rate, seconds):
    arrivals.seen.clear()
    committed = produce(bench, database, side, rate, seconds)
    wait_for(lambda: len(arrivals.seen) >= len(committed), 60, "the last delivery")
    time.sleep(0.1)  # until the processor times are looked at once more
    return committed


def sample(bench, report, side, rate, seconds):
    with bench.fresh() as database, SIDES[side](bench, database) as (arrivals, cpu):
        deliver(bench, database, side, arrivals, 50, 1)  # until all plans are made
        before = cpu()
        committed = deliver(bench, database, side, arrivals, rate, seconds)
        used = [(b - a) / seconds * 100 for a, b in zip(before, cpu())]
        # Before the commit was known to its client: at once.
        delays = sorted(max(0, arrivals.seen[key] - when) * 1e3 for key, when in committed.items())
    values = {name: part(delays, share) for name, share in SHARE}
    report.sample("%s, %d/s" % (side, rate), **values, rate=len(committed) / seconds, relay_cpu=used[0], backend_cpu=used[1])


def measure(bench, report):
    fields = [name for name, _ in SHARE] + ["rate", "relay_cpu", "backend_cpu"]
    for _ in range(bench.times(3)):
        for rate in RATES:
            for side in SIDES:
                sample(bench, report, side, rate, bench.size(5, 2) if rate > 1 else bench.size(15, 10))
    print("  milliseconds; messages a second; processor time of the relay and of its backends, percent of a core")
    report.table(["", *(field.replace("_", " ") for field in fields)],
                 [[label] + [report.median(label, field) for field in fields]
                  for label in ("%s, %d/s" % (side, rate) for rate in RATES for side in SIDES)])
    middles = {rate: report.median("relay, %d/s" % rate, "p50") for rate in RATES}
    report.check("p50 at any rate, ms", max(middles.values()), P50_BAR, at_most=True)
    report.check("p50 at 2,000/s / the bare table's", middles[2000] / report.median("bare, 2000/s", "p50"), 1, at_most=True)
    report.check("the worst p50 / that of a calm relay", max(middles.values()) / middles[CALM], HUMP_BAR, at_most=True)
