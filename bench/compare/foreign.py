"""Peers with a library of their own, each worked by a driver in bench/peers."""
import json
import os
import subprocess

from compare import cache
from compare.system import PAYLOAD, System, driver_env
from compare.worker import Failed, Worker

SERIES = "generate_series(%(first)s::int, %(last)s::int) i"


class Driven(System):
    """command: the driver; folder: where it runs."""
    command, folder, slots = (), None, None

    def run_driver(self, place, mode, count=0):
        """A task that ends by itself; what it printed."""
        env = {**os.environ, **driver_env(place, self.user, count, None, PEER_MODE=mode, PEER_KEYS=self.keys)}
        done = subprocess.run(self.command, cwd=self.folder, env=env, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
                              stderr=subprocess.PIPE, text=True, timeout=900)
        if done.returncode != 0:
            raise Failed("%s %s: %s" % (self.name, mode, (done.stderr or done.stdout).strip()[-800:]))
        return done.stdout

    def prepare(self, lab, place, conn):
        self.run_driver(place, "prepare")

    def worker(self, lab, place, count=0, stamps=None, connections=0):
        return Worker(list(self.command), driver_env(place, self.user, count, stamps, PEER_KEYS=self.keys), self.folder)

    def left(self, place, count):
        with place.connect() as conn:
            return conn.execute(self.left_sql).fetchone()[0]


class Graphile(Driven):
    family, keeps = "graphile-worker", "nothing"
    set_up = "localQueue 2000, 24 jobs at once, completions in batches"
    left_sql = "select count(*) from graphile_worker._private_jobs"

    def __init__(self, keys=0):
        self.keys, self.order = keys, "per queue name"
        self.name = "graphile-worker-keys" if keys else "graphile-worker"
        self.pace = 3000 if keys else 0
        self.enqueue = "select graphile_worker.add_job('noop', $2::json%s)" % (", queue_name => $3" if keys else "")

    def install(self):
        self.folder = cache.node("graphile-worker", "pg")
        self.command = [cache.node_command(self.folder), "graphile-worker.mjs"]
        self.version = cache.versions()["graphile-worker"]
        self.label = "graphile-worker %s%s" % (self.version, ", %d keys" % self.keys if self.keys else "")

    def fill_sql(self):
        return ("select count(*) from graphile_worker.add_jobs(array(select row('noop', " + PAYLOAD + "::json,"
                " 'k' || (i %% nullif(%(keys)s, 0)), null, null, null, null, null)::graphile_worker.job_spec from " +
                SERIES + "))")


class PgBoss(Driven):
    name = family = "pg-boss"
    keeps = "status row"
    set_up = "4 loops of 1000 in a drain, else 4 workers of 100 with notify"
    left_sql = "select count(*) from pgboss.job where state < 'completed'"

    def install(self):
        self.folder = cache.node("pg-boss", "pg")
        self.command = [cache.node_command(self.folder), "pg-boss.mjs"]
        self.version = cache.versions()["pg-boss"]
        self.label = "pg-boss %s" % self.version

    def prepare(self, lab, place, conn):
        super().prepare(lab, place, conn)
        statement = json.loads(self.run_driver(place, "sql").strip().splitlines()[-1])
        self.enqueue = statement.replace("$1::text::json", "json_build_array(json_build_object('data', $2::json))")
        if self.enqueue == statement:
            raise Failed("the insert statement of pg-boss has changed: see bench/compare/foreign.py")

    def fill(self, lab, place, count):
        self.run_driver(place, "fill", count)


def everybody():
    return [Graphile(), Graphile(keys=1000), PgBoss()]
