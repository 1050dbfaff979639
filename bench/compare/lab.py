"""Where samples are taken: one private server, a fresh database for each, a quiet machine, and a budget of minutes.

    with Lab(options) as lab:
        lab.scenario(name, title)
        lab.take(system, label, lambda: ...)         # once more when others were busy meanwhile
"""
import collections
import contextlib
import datetime
import itertools
import json
import os
import time

import psycopg

from compare import machine
from compare.budget import Budget
from harness import facts
from harness.server import TEMPLATE, Bench
from tests.support.pgserver import PgServer

SETTINGS = {
    "shared_buffers": "2GB",
    "max_wal_size": "8GB",
    "checkpoint_timeout": "30min",
    "max_connections": "300",
    "autovacuum_naptime": "1min",  # the default; more often, its visits to all these databases show in the CPU
    "track_wal_io_timing": "off",
}
ORDERS = "create table orders (id bigint generated always as identity primary key, customer bigint, total int)"
LSN = "select pg_wal_lsn_diff(pg_current_wal_insert_lsn(), '0/0')::float8"


class Place:
    """A database on one of the servers."""

    def __init__(self, server, name):
        self.server, self.name = server, name

    def conninfo(self, user="postgres"):
        return self.server.conninfo(self.name, user=user)

    def connect(self, user="postgres"):
        return psycopg.connect(self.conninfo(user), autocommit=True)

    def env(self, user="postgres"):
        """libpq's variables, which the drivers of all languages heed."""
        return {"PGHOST": self.server.folder, "PGPORT": str(self.server.port), "PGUSER": user, "PGDATABASE": self.name}


class Meter:
    """What the server, a worker and the clock did between start and stop."""

    def __init__(self, place, worker=None):
        self.place, self.worker = place, worker

    def start(self):
        self.conn = self.place.connect()
        self.first = self._read()
        return self

    def _read(self):
        return (time.monotonic(), machine.server_cpu(self.place.server.process.pid),
                self.conn.execute(LSN).fetchone()[0], self.worker.cpu() if self.worker else 0.0)

    def stop(self, count):
        """Per message: rate, microseconds of CPU, bytes of WAL."""
        last = self._read()
        self.conn.close()
        seconds, server, wal, worker = (b - a for a, b in zip(self.first, last))
        values = {"count": count, "seconds": seconds, "rate": count / seconds, "server_us": server / count * 1e6,
                  "wal": wal / count}
        if self.worker:
            values.update(worker_us=worker / count * 1e6, peak_mb=self.worker.peak())
        return values


class Lab:
    """options: build, quick, rounds, budget (minutes), retries (of a noisy sample), folder (of results)."""

    def __init__(self, options):
        self.options, self.quick = options, options.quick
        self.bench = Bench(options.build, options.quick, settings=SETTINGS)
        self.numbers = itertools.count(1)
        self.templates, self.logical = {}, None
        self.skipped = {}  # of which peer, why
        self.results, self.scenarios = None, {}
        self.memory = {}   # of the scenarios, from round to round
        self.made = {}     # filled databases
        self.failures = collections.Counter()
        self.budget = Budget(options.budget, options.quick)
        self.bench.brief = self.brief = not options.quick and options.budget < 60

    def __enter__(self):
        self.bench.__enter__()
        return self

    def __exit__(self, *_):
        self.budget.save()
        if self.logical:
            self.logical.close()
        self.bench.__exit__()

    @staticmethod
    def wait_for(condition, seconds=10):
        """Whether it came about in time."""
        end = time.monotonic() + seconds
        while not condition():
            if time.monotonic() >= end:
                return False
            time.sleep(0.02)
        return True

    def log(self, text):
        print(text, flush=True)

    # ---- databases -------------------------------------------------------------------------------------------------

    def server(self, logical=False):
        """The one server, or its twin for those who read the WAL: wal_level=logical makes others write more of it."""
        if logical and not self.logical:
            self.logical = PgServer(fsync=True, settings={**SETTINGS, "wal_level": "logical", "max_wal_senders": "20",
                                                          "max_replication_slots": "20"})
            self.logical.start()
        return self.logical if logical else self.bench.server

    def admin(self, server, *statements):
        with psycopg.connect(server.conninfo(), autocommit=True) as conn:
            for statement in statements:
                conn.execute(statement)

    def template(self, system):
        """The database with a system's tables and the business table, made once."""
        if system.family not in self.templates:
            server = self.server(system.logical)
            place = Place(server, "peer_" + system.family.replace("-", "_"))
            self.admin(server, "create database %s template %s" % (place.name,
                                                                   TEMPLATE if system.ours else "template0"))
            with place.connect() as conn:
                conn.execute(ORDERS)
                if system.ours:
                    conn.execute("grant all on orders to bench")
                system.prepare(self, place, conn)
                conn.execute("vacuum analyze")  # so that the first one of a sample has nothing of these
            self.templates[system.family] = place
        return self.templates[system.family]

    def copy(self, source):
        """Page by page through the WAL: then the first change of a page writes no image of it into what is measured."""
        place = Place(source.server, "peer_%d" % next(self.numbers))
        self.admin(source.server, "checkpoint",
                   "create database %s template %s strategy wal_log" % (place.name, source.name))
        return place

    def drop(self, place):
        self.admin(place.server, "drop database if exists %s with (force)" % place.name)

    @contextlib.contextmanager
    def fresh(self, system, filled=None):
        place = self.copy(filled or self.template(system))
        try:
            system.set_out(self, place)
            try:
                yield place
            finally:
                system.clean_up(self, place)
        finally:
            self.drop(place)

    def filled(self, system, count):
        """A database with so many messages in it, made at the first call and kept for copies."""
        if (system.name, count) not in self.made:
            place = self.copy(self.template(system))
            system.fill(self, place, count)
            with place.connect() as conn:
                conn.execute("vacuum analyze")
            self.made[system.name, count] = place
        return self.made[system.name, count]

    # ---- samples ---------------------------------------------------------------------------------------------------

    def scenario(self, name, title):
        """Opens a file of results, or goes on with it."""
        if name not in self.scenarios:
            self.scenarios[name] = {
                "name": name, "title": title, "quick": self.quick, "budget_minutes": self.options.budget,
                "started_at": datetime.datetime.now(datetime.timezone.utc).isoformat(timespec="seconds"),
                "machine": facts.machine(), "load_before": facts.load(), "postgresql": self.bench.version(),
                "settings": {**self.bench.settings(), **{key: SETTINGS[key] for key in SETTINGS}},
                "skipped": self.skipped, "systems": {}, "samples": [], "thrown_away": [], "failed": {}, "left_out": [],
                "sizes": {},
            }
        self.results = self.scenarios[name]

    def write(self):
        os.makedirs(self.options.folder, exist_ok=True)
        self.results["load_after"] = facts.load()
        path = os.path.join(self.options.folder, "peers-%s.json" % self.results["name"])
        with open(path + ".new", "w") as file:
            json.dump(self.results, file, indent=1)
            file.write("\n")
        os.rename(path + ".new", path)

    def patience(self, seconds):
        """A time limit that ends soon after the budget does."""
        return min(seconds, max(30.0, self.budget.left() + 20))

    def check_server(self):
        if self.bench.server.process.poll() is not None:
            raise SystemExit("bench/run-peers: the private server is gone: see its log in %s" % self.bench.server.folder)

    def take(self, system, label, measure, **facts_of):
        """One sample, kept with the share of the cores that others used. A noisy one is thrown away and taken again, as
        often as --retries says; then it stays, marked. None: there is no time for it, or it failed, which is on record. What
        failed twice is not tried again."""
        self.results["systems"][system.name] = system.describe()
        name, key = "%s, %s" % (system.label, label), "%s/%s/%s" % (self.results["name"], system.name, label)
        if self.failures[key] >= 2:
            return None
        if not self.quick and not self.budget.fits(key):
            if name not in self.results["left_out"]:
                self.results["left_out"].append(name)
                self.log("%s  %-28s %-16s no time left" % (self.budget.clock(), system.label, label))
            return None
        for attempt in range(self.options.retries + 1):
            start = time.monotonic()
            before = machine.wait_until_quiet(0 if self.quick else min(machine.WAIT_SECONDS, self.budget.patience()))
            self.budget.waited += max(0.0, time.monotonic() - start - 0.2)
            start = time.monotonic()
            try:
                with machine.Noise() as noise:
                    values = measure()
            except Exception as problem:  # whatever it is, the others are measured
                self.failures[key] += 1
                self.results["failed"][name] = ("%s: %s" % (type(problem).__name__, problem))[:500]
                self.log("%s  %-28s %-16s failed: %s" % (self.budget.clock(), system.label, label, str(problem)[:300]))
                self.write()
                self.check_server()
                return None
            self.budget.note(key, time.monotonic() - start)
            noisy = noise.share > machine.NOISE_LIMIT
            row = {"system": system.name, "label": label, **facts_of, **values, "others_before": before,
                   "others": noise.share, "noisy": noisy}
            again = noisy and attempt < self.options.retries and self.budget.fits(key) and self.budget.patience() > 0
            self.budget.waited += time.monotonic() - start if again else 0.0
            self.results["thrown_away" if again else "samples"].append(row)
            self.write()
            self.log("%s  %-28s %-16s %s  others %d %%%s" % (
                self.budget.clock(), system.label, label, system.short(values), round(100 * noise.share),
                ": thrown away" if again else ": noisy" if noisy else ""))
            if not again:
                return row
