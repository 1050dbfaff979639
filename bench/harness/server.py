"""The server that is measured, fresh databases on it, and the program with the hot loops."""
import contextlib
import itertools
import json
import os
import subprocess

import psycopg

from harness import facts
from tests.support.pgserver import PgServer

SETTINGS = {
    "shared_buffers": "1GB",
    "max_wal_size": "8GB",
    "checkpoint_timeout": "30min",
    "max_connections": "200",
    "autovacuum_naptime": "1min",
}
TEMPLATE = "bench_template"
# Messages that were delivered: of a window they share a row.
DELIVERED = "select coalesce(sum(coalesce(cardinality(ids), 1)), 0)::bigint from outbox.attempt where outcome = 1"

# Tomorrow's partitions, as any relay would have made them, and those of the last week with a little in them: messages
# are kept seven days by default, and whoever looks into one partition too many should see it here.
PARTITIONS = """
do $$ begin while (select bool_or(more) from outbox.purge()) loop end loop; end $$;
set role outbox_owner;
select count(outbox.make_period(day, day + interval '1 day'))
  from generate_series(date_trunc('day', now()) - interval '7 days', date_trunc('day', now()) - interval '1 day',
                       '1 day') day;
reset role;
insert into outbox.message (id, created_at, priority, max_attempts, namespace, topic, payload)
select outbox.uuid7(at), at, 4, 5, 'default', 'orders', '{"old": true}'
  from generate_series(date_trunc('day', now()) - interval '7 days', date_trunc('day', now()), '1 min') at;
"""


class Bench:
    """with Bench(build, quick) as bench: every sample gets a database of its own from bench.fresh()."""

    def __init__(self, build, quick, rounds=0, settings=None):
        self.build = build
        self.quick = quick
        self.brief = False  # between the two: sizes for a budget of minutes
        self.stocks = {}    # of what: the database that is copied
        self.asked_rounds = rounds
        self.numbers = itertools.count(1)
        for name in ("src/cli/outbox", "bench/pg_bench"):
            if not os.path.exists(os.path.join(build, name)):
                raise SystemExit("bench/run: %s is not built: run make" % os.path.join(build, name))
        self.asked_settings = settings or SETTINGS
        self.server = PgServer(fsync=True, settings=self.asked_settings)

    def size(self, full, quick, brief=None):
        return quick if self.quick else brief if self.brief and brief else full

    @property
    def rounds(self):
        """How often each side is measured, turn by turn."""
        return self.times(5)

    def times(self, full):
        """As often as --rounds says; else so often, or once when it is quick."""
        return self.asked_rounds or self.size(full, 1)

    def __enter__(self):
        self.server.__enter__()
        try:
            self._template()
        except BaseException:
            self.server.close()
            raise
        return self

    def __exit__(self, *_):
        self.server.close()

    def _template(self):
        """A migrated database, and the role the measurements use: it holds what a relay and a producer hold."""
        self.admin = psycopg.connect(self.server.conninfo(), autocommit=True)
        self.admin.execute("create role bench login")
        self.admin.execute("create database %s" % TEMPLATE)
        done = subprocess.run([os.path.join(self.build, "src/cli/outbox"), "migrate", "--store",
                               self.server.conninfo(TEMPLATE)],
                              stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
        if done.returncode != 0:
            raise SystemExit("bench/run: outbox migrate failed:\n" + done.stdout)
        self.server.psql("grant outbox_producer, outbox_relay, outbox_auditor to bench", dbname=TEMPLATE)
        self.server.psql("grant create on schema public to bench", dbname=TEMPLATE)
        self.server.psql(PARTITIONS, dbname=TEMPLATE)
        self.server.psql("vacuum analyze", dbname=TEMPLATE)

    @contextlib.contextmanager
    def fresh(self, template=TEMPLATE):
        """The name of a database nobody has used yet: a copy of the template, which may be another one that was filled.
        The checkpoint before it is filled keeps full page images out of what is measured after: in a running system,
        too, a message is delivered long before the next checkpoint. A copy of a filled one goes through the WAL, after
        the checkpoint."""
        name = "bench_%d" % next(self.numbers)
        if template == TEMPLATE:
            self.admin.execute("create database %s template %s strategy file_copy" % (name, template))
        self.admin.execute("checkpoint")
        if template != TEMPLATE:
            self.admin.execute("create database %s template %s strategy wal_log" % (name, template))
        try:
            yield name
        finally:
            self.admin.execute("drop database %s with (force)" % name)

    def stock(self, what, make):
        """A database to copy from, made by make(name) when it is first asked for; it is there until sell_off."""
        if what not in self.stocks:
            name = "bench_stock_%d" % next(self.numbers)
            self.admin.execute("create database %s template %s strategy file_copy" % (name, TEMPLATE))
            make(name)
            self.stocks[what] = name
        return self.stocks[what]

    def sell_off(self):
        for name in self.stocks.values():
            self.admin.execute("drop database %s with (force)" % name)
        self.stocks.clear()

    def place(self, database):
        return self.server.conninfo(database, user="bench")

    def connect(self, database, user="bench"):
        return psycopg.connect(self.server.conninfo(database, user=user), autocommit=True)

    def settle_down(self, database):
        """After a filling: statistics and hint bits as a running system would have them."""
        with self.connect(database, "postgres") as conn:
            conn.execute("vacuum analyze")

    def pg_bench(self, command, *databases, **options):
        """Runs the program; options become --names, True a bare one, None and False nothing."""
        line = [os.path.join(self.build, "bench/pg_bench"), command]
        for database in databases:
            line += ["--place", self.place(database)]
        for name, value in options.items():
            if value is not None and value is not False:
                line += ["--" + name.replace("_", "-")] + ([] if value is True else [str(value)])
        done = subprocess.run(line, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
        if done.returncode != 0:
            raise RuntimeError("%s\n%s" % (" ".join(line), done.stderr.strip()))
        return json.loads(done.stdout)

    def settings(self):
        names = list(self.asked_settings) + ["fsync", "full_page_writes", "synchronous_commit", "wal_level", "jit"]
        return {name: self.admin.execute("select current_setting(%s)", (name,)).fetchone()[0] for name in names}

    def version(self):
        return self.admin.execute("show server_version").fetchone()[0]

    def describe(self):
        machine = facts.machine()
        return "%s, %d cores, %s of memory, Linux %s; PostgreSQL %s; %s%s" % (
            machine["cpu"], machine["cores"], machine["memory"], machine["kernel"], self.version(),
            ", ".join("%s=%s" % pair for pair in self.settings().items()),
            "\nQUICK: small sizes, one round; these figures prove nothing" if self.quick else "")
