"""pgmq and PgQ: queues in SQL, worked by the same C program as the floor."""
import os
import re
import shutil
import tempfile

from compare import cache
from compare.system import PAYLOAD, SqlSystem


class Pgmq(SqlSystem):
    family = "pgmq"
    enqueue = "select pgmq.send('bench', $2::jsonb)"

    def __init__(self, how, keeps):
        self.name, self.side, self.how, self.keeps = "pgmq-" + how, "pgmq-" + how, how, keeps
        self.per_message, self.in_curves = how != "pop", how == "delete"
        self.set_up = "batches of 500, 2 connections, 5 ms poll" + ("; at most once" if how == "pop" else "")

    def install(self):
        self.version, self.sql = cache.pgmq_sql()
        self.label = "pgmq %s, %s" % (self.version, "pop" if self.how == "pop" else "read + " + self.how)

    def prepare(self, lab, place, conn):
        # The file is made for CREATE EXTENSION; what only that understands is left out.
        lines = [line for line in self.sql.splitlines() if not line.startswith("\\")]
        conn.execute("create schema if not exists pgmq")
        conn.execute(re.sub(r"select pg_catalog\.pg_extension_config_dump\([^;]*;", "", "\n".join(lines), flags=re.I))
        conn.execute("select pgmq.create('bench')")

    def left(self, place, count):
        with place.connect() as conn:
            return conn.execute("select queue_length from pgmq.metrics('bench')").fetchone()[0]

    def fill_sql(self):
        return ("select count(*) from pgmq.send_batch('bench', array(select " + PAYLOAD +
                " from generate_series(%(first)s::int, %(last)s::int) i))")


class PgQ(SqlSystem):
    """One consumer; batches are made by ticks: in a drain they are there, otherwise pgqd makes them."""
    name = family = side = "pgq"
    keeps, order, per_message, connections = "no state per message", "whole queue", False, 1
    enqueue = "select pgq.insert_event('bench', 'orders', $2)"
    set_up = "ticks of 500 events or 50 ms by pgqd (ticker_period 0.05), one consumer, 5 ms poll"

    def install(self):
        control = "/usr/share/postgresql/15/extension/pgq.control"
        if not os.path.exists(control) or not shutil.which("pgqd"):
            raise cache.Missing("the Debian packages postgresql-15-pgq3 and pgqd are not installed: tools/deps peers")
        with open(control) as file:
            self.version = re.search(r"default_version = '([^']*)'", file.read()).group(1)
        self.label = "PgQ %s" % self.version

    def prepare(self, lab, place, conn):
        conn.execute("create extension pgq")
        conn.execute("select pgq.create_queue('bench'), pgq.register_consumer('bench', 'bench')")
        conn.execute("select pgq.set_queue_config('bench', 'ticker_max_count', '500'),"
                     " pgq.set_queue_config('bench', 'ticker_max_lag', '50 milliseconds')")
        conn.execute("select pgq.ticker()")

    def fill(self, lab, place, count):
        with place.connect() as conn:
            for first in range(1, count + 1, 500):
                conn.execute("select count(pgq.insert_event('bench', 'orders', " + PAYLOAD + "::text))"
                             " from generate_series(%s::int, %s::int) i", (first, min(first + 499, count)))
                conn.execute("select pgq.force_tick('bench'), pgq.ticker('bench')")
            conn.execute("select pgq.ticker('bench')")

    def ready_to_drain(self, place):
        with place.connect() as conn:
            conn.execute("select pgq.force_tick('bench')")
            conn.execute("select pgq.ticker('bench')")

    def worker(self, lab, place, count=0, stamps=None, connections=0):
        self.folder = tempfile.TemporaryDirectory(prefix="outbox-bench-")
        self.ini = os.path.join(self.folder.name, "pgqd.ini")
        with open(self.ini, "w") as file:
            file.write("[pgqd]\nbase_connstr = host=%s port=%d user=postgres\ninitial_database = postgres\n"
                       "database_list = %s\nticker_period = 0.05\nsyslog = 0\n" % (
                           place.server.folder, place.server.port, place.name))
        self.ticking = not count
        return super().worker(lab, place, count, stamps, 1)

    def helpers(self, place):
        return [["pgqd", "-q", self.ini]] if self.ticking else ()
