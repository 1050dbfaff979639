"""A system that is measured: how it is installed, filled, produced into and worked. Here: the base, the floor and Outbox."""
import json
import os
import tempfile
from concurrent import futures

from compare import cache
from compare.worker import Relay, Worker
from harness import fill
from harness.server import DELIVERED

PAYLOAD = "jsonb_build_object('i', i, 'pad', repeat('x', 181 - length(i::text)))"
CHUNK = 10000  # rows of a filling statement


class System:
    name = ""       # of this variant, unique
    family = ""     # whose tables it uses
    label = ""      # for people, with the version
    version = ""
    keeps = ""      # of a message that was delivered
    order = "none"  # that it keeps
    set_up = ""     # the settings that differ from its defaults, for people
    per_message = True  # it knows of each message whether it was delivered, and delivers at least once
    in_curves = True  # its latency is of interest besides that of its variants
    ours = logical = False
    in_place = False  # a copy of a filled database will not do: each is filled itself
    keys = 0        # messages have so many keys
    pace = 0        # messages a second that it is known not to exceed by far; 0: fast. Slow ones get smaller samples
    enqueue = ""    # the statement of a producer: $1 number, $2 JSON text, $3 key
    ring, ring_ms = None, 0
    user = "postgres"

    def install(self):
        """Raises cache.Missing."""

    def prepare(self, lab, place, conn):
        """Makes its tables."""

    def fill_sql(self):
        """A statement with %(first)s and %(last)s."""
        raise NotImplementedError

    def fill(self, lab, place, count):
        with place.connect(self.user) as conn:
            for first in range(1, count + 1, CHUNK):
                conn.execute(self.fill_sql(), {"first": first, "last": min(first + CHUNK - 1, count), "keys": self.keys})

    def worker(self, lab, place, count=0, stamps=None, connections=0):
        """count 0: until it is told to stop."""
        raise NotImplementedError

    def webhooks(self, lab, place, count, url, connections):
        return None

    def left(self, place, count):
        """How many of count are not settled after a drain."""
        return 0

    def ready_to_drain(self, place):
        """What was enqueued one by one can be drained as if it had been filled."""

    def set_out(self, lab, place):
        """In a fresh database, before anything else."""

    def clean_up(self, lab, place):
        """Before its database is dropped."""

    def describe(self):
        return {key: getattr(self, key) for key in ("label", "version", "keeps", "order", "set_up", "keys",
                                                    "per_message")}

    def size(self, count, seconds):
        """As many of count as it can be expected to handle in so many seconds."""
        return min(count, max(100, int(self.pace * seconds))) if self.pace else count

    @staticmethod
    def short(values):
        """A sample in a few words, for the terminal."""
        shown = [("rate", "%9.0f/s"), ("server_us", "server %6.1f us"), ("worker_us", "worker %6.1f us"),
                 ("wal", "WAL %5.0f B"), ("p50", "p50 %7.1f ms"), ("p99", "p99 %7.1f ms"), ("tps", "%7.0f tps")]
        return "  ".join(text % values[key] for key, text in shown if values.get(key) is not None)


def driver_env(place, user, count, stamps, **more):
    env = {**place.env(user), "PEER_COUNT": str(count), **{key: str(value) for key, value in more.items()}}
    return {**env, "PEER_STAMPS": stamps} if stamps else env


class SqlSystem(System):
    """Worked by build/bench/peer_sql."""
    side, batch, connections, poll_us = "", 500, 2, 5000

    def worker(self, lab, place, count=0, stamps=None, connections=0):
        env = driver_env(place, self.user, count, stamps, PEER_BATCH=self.batch, PEER_POLL_US=self.poll_us,
                         PEER_CONNECTIONS=connections or self.connections)
        return Worker([os.path.join(lab.options.build, "bench/peer_sql"), self.side], env, helpers=self.helpers(place))

    def helpers(self, place):
        return ()


class Floor(SqlSystem):
    """The least that a queue in a table can do."""
    name = family = side = "floor"
    label, keeps, per_message = "floor: delete … skip locked", "nothing", False
    set_up = "batches of 500, 2 connections, 5 ms poll; at most once"
    enqueue = "insert into floor (topic, payload) values ('orders', $2::jsonb)"

    def prepare(self, lab, place, conn):
        conn.execute(fill.FLOOR_TABLE)

    def left(self, place, count):
        with place.connect() as conn:
            return conn.execute("select count(*) from floor").fetchone()[0]

    def fill_sql(self):
        return fill.FLOOR


class Ours(System):
    """`outbox run` and the SQL function, nothing else."""
    family, ours, user, keeps = "outbox", True, "bench", "every attempt"
    set_up = "defaults"

    def __init__(self, keys=0):
        self.keys = keys
        self.name = "outbox-keys" if keys else "outbox"
        self.order = "per key"
        self.enqueue = "select outbox.enqueue('orders', $2::jsonb%s)" % (", key => $3" if keys else "")

    def install(self):
        self.version = "this tree"
        self.label = "outbox, %s" % ("%d keys" % self.keys if self.keys else "no keys")

    def fill(self, lab, place, count):
        with futures.ThreadPoolExecutor() as pool:  # two cores fill sooner than one
            half = count // 2
            for done in [pool.submit(self.fill_part, place, 0, half), pool.submit(self.fill_part, place, half, count - half)]:
                done.result()

    def fill_part(self, place, after, count):
        with place.connect(self.user) as conn:
            fill.calls(conn, fill.OURS, count, after=after, keys=self.keys, tenants=0, priorities=False, prefix="k")

    def left(self, place, count):
        with place.connect() as conn:
            return count - conn.execute(DELIVERED).fetchone()[0]

    def webhooks(self, lab, place, count, url, connections):
        """A worker that posts to a URL; None: a system that cannot be made to."""
        return self.worker(lab, place, count, sink={"kind": "http", "url": url, "allow": "127.0.0.0/8",
                                                    "concurrency": connections, "batch": connections})

    def worker(self, lab, place, count=0, stamps=None, connections=0, sink=None):
        self.folder = tempfile.TemporaryDirectory(prefix="outbox-bench-")
        path = os.path.join(self.folder.name, "outbox.yaml")
        out = sink or {"kind": "null"}
        if stamps:
            out = {"kind": os.path.join(lab.options.build, "bench/stamp_sink.so"), "path": stamps, **(sink or {})}
        config = {"store": "postgresql://%s@/%s?host=%s&port=%d" % (self.user, place.name, place.server.folder,
                                                                   place.server.port),
                  "sinks": {"out": out}, "routes": [{"sink": "out"}], "log": {"level": "error"}}
        with open(path, "w") as file:
            json.dump(config, file)  # JSON is YAML
        command = [os.path.join(lab.options.build, "src/cli/outbox"), "run", "--config", path]
        return Relay(command + (["--until-empty"] if count else []), {}, drain=bool(count), count=count,
                     copies=connections or 1)


def install(systems, wanted, log):
    """Those that can be had, and {label: why not} of the others. wanted: names, or nothing for all."""
    found, skipped = [], {}
    for system in systems:
        if wanted and system.name not in wanted and system.family not in wanted:
            continue
        try:
            system.install()
            found.append(system)
            log("  %-28s %s" % (system.label, system.set_up))
        except (cache.Missing, OSError) as problem:
            skipped[system.name] = str(problem)
            log("  %-28s skipped: %s" % (system.name, problem))
    return found, skipped
