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
    command, folder, posts = (), None, False

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

    def webhooks(self, lab, place, count, url, connections):
        worker = self.worker(lab, place, count)
        worker.env["PEER_URL"] = url
        return worker if self.posts else None

    def left(self, place, count):
        with place.connect() as conn:
            return conn.execute(self.left_sql).fetchone()[0]


class Graphile(Driven):
    family, keeps, posts = "graphile-worker", "nothing", True
    set_up = "localQueue 2000, 24 jobs at once, completions in batches"
    left_sql = "select count(*) from graphile_worker._private_jobs"

    def __init__(self, keys=0):
        self.keys, self.order, self.in_curves = keys, "per queue name", not keys
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
    keeps, posts = "status row", True
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


class River(Driven):
    name = family = "river"
    keeps, posts = "status row", True
    set_up = "5000 workers, fetch cooldown 2 ms, batch completer; producers notify every 2 ms at most, as its client does"
    enqueue = "insert into river_job (args, kind, max_attempts) values ($2::jsonb, 'noop', 25)"
    ring, ring_ms = "select pg_notify(current_schema() || '.river_insert', '{\"queue\": \"default\"}')", 2
    left_sql = "select count(*) from river_job where state <> 'completed'"

    def install(self):
        self.command = [cache.go("river", {"github.com/riverqueue/river": "river",
                                           "github.com/riverqueue/river/riverdriver/riverpgxv5": "river"})]
        self.version = cache.versions()["river"]
        self.label = "River %s" % self.version

    def fill_sql(self):
        return "insert into river_job (args, kind, max_attempts) select " + PAYLOAD + ", 'noop', 25 from " + SERIES


class Watermill(Driven):
    left_sql = "select 0"

    def __init__(self, schema):
        self.schema, self.name = schema, "watermill-" + schema
        self.family = self.name
        self.columns, self.values = "uuid, payload, metadata", "gen_random_uuid()::text, %s, '{}'"
        if schema == "queue":
            self.keeps, self.order = "nothing", "whole queue"
            self.set_up = "queue schema, delete on ack, batches of 1000, 5 ms poll; a transaction is open while handlers run"
            self.left_sql = "select count(*) from watermill_orders"
        else:
            self.keeps, self.order, self.per_message, self.in_curves = "offset", "whole queue", False, False
            self.set_up = "offsets schema, one consumer group, batches of 100, 5 ms poll"
            self.columns += ", transaction_id"
            self.values += ", pg_current_xact_id()"
        self.enqueue = "insert into watermill_orders (%s) values (%s)" % (self.columns, self.values % "$2::json")

    def install(self):
        self.command = ["env", "PEER_SCHEMA=" + self.schema,
                        cache.go("watermill", {"github.com/ThreeDotsLabs/watermill-sql/v4": "watermill-sql"})]
        self.version = cache.versions()["watermill-sql"]
        self.label = "watermill-sql %s, %s" % (self.version, self.schema)

    def fill_sql(self):
        return "insert into watermill_orders (%s) select %s from %s" % (self.columns, self.values % (PAYLOAD + "::json"),
                                                                       SERIES)


class Gue(Driven):
    name = family = "gue"
    keeps, pace = "nothing", 2500
    set_up = "16 workers, 5 ms poll"
    left_sql = "select count(*) from gue_jobs"
    columns = "insert into gue_jobs (job_id, priority, run_at, job_type, args, queue, created_at, updated_at) "
    values = "%s, 0, now(), 'noop', convert_to(%s, 'UTF8'), 'bench', now(), now()"
    # A ULID is made by the client; as long, and growing with the number.
    enqueue = columns + "values (" + values % ("lpad($1::text, 26, '0')", "$2") + ")"

    def install(self):
        self.command = [cache.go("gue", {"github.com/vgarvardt/gue/v5": "gue"})]
        self.version = cache.versions()["gue"]
        self.label = "gue %s" % self.version

    def prepare(self, lab, place, conn):
        with open(os.path.join(cache.go_module("github.com/vgarvardt/gue/v5", "gue"), "migrations/schema.sql")) as file:
            conn.execute(file.read())

    def fill_sql(self):
        return self.columns + "select " + self.values % ("lpad(i::text, 26, '0')", PAYLOAD + "::text") + " from " + SERIES


class GoOutbox(Driven):
    """Its dispatcher is a program of its own; without the module there is nothing to drive."""
    name = family = "go-outbox"

    def install(self):
        cache.go_module("github.com/efureev/go-outbox", "go-outbox")
        raise cache.Missing("the module is there, but no driver is written for it yet")


class Procrastinate(Driven):
    name = family = "procrastinate"
    keeps, order, pace = "status row", "per lock", 250
    set_up = "16 jobs at once, woken by notify"
    enqueue = ("select procrastinate_defer_jobs_v1(array[row('bench', 'noop', 0, null, null, $2::jsonb, null)"
               "::procrastinate_job_to_defer_v1])")
    left_sql = "select count(*) from procrastinate_jobs where status in ('todo', 'doing')"

    def install(self):
        own, self.folder = cache.python("procrastinate")
        self.command = [own, "procrastinate_worker.py"]
        self.version = cache.versions()["procrastinate"]
        self.label = "procrastinate %s" % self.version

    def fill_sql(self):
        return ("select procrastinate_defer_jobs_v1(array_agg(row('bench', 'noop', 0, null, null, " + PAYLOAD +
                ", null)::procrastinate_job_to_defer_v1)) from " + SERIES)


class Debezium(Driven):
    """Reads the WAL: it has a server of its own with wal_level=logical, and a slot per sample."""
    name = family = "debezium"
    keeps, order, per_message, logical, in_place = "LSN", "whole log", False, True, True
    set_up = "embedded engine, outbox event router, poll 5 ms, batches of 4096; a server with wal_level=logical, over TCP"
    table = ("create table outboxevent (id uuid not null primary key, aggregatetype varchar(255) not null,"
             " aggregateid varchar(255) not null, type varchar(255) not null, payload jsonb);"
             "create publication bench for table outboxevent with (publish = 'insert')")
    insert = "insert into outboxevent (id, aggregatetype, aggregateid, type, payload) "
    enqueue = insert + "values (gen_random_uuid(), 'orders', $1::text, 'placed', $2::jsonb)"
    left_sql = "select 0"

    def install(self):
        path = cache.maven("pom.xml", "debezium")
        self.command = ["java", "-Xmx512m", "-Dorg.slf4j.simpleLogger.defaultLogLevel=error", "-cp", path, "DebeziumWorker"]
        self.version = cache.versions()["debezium"]
        self.label = "Debezium %s" % self.version.replace(".Final", "")

    def prepare(self, lab, place, conn):
        conn.execute(self.table)

    def worker(self, lab, place, count=0, stamps=None, connections=0):
        worker = super().worker(lab, place, count, stamps)
        started = worker.ready

        def streaming():
            """The engine says that it has started seconds before it reads the slot. When there is no backlog, messages go
            ahead until it confirms one: it does so with a batch, if the last time was a second ago."""
            started()
            with place.connect() as conn:
                self.wait_for_slot(lab, conn, "active", place.name)
                if not count:
                    before = conn.execute("select pg_current_wal_insert_lsn()").fetchone()[0]
                    for _ in range(60):
                        conn.execute(self.insert + "values (gen_random_uuid(), 'orders', '0', 'placed', '{\"i\": 0, \"pad\": 0}')")
                        if self.wait_for_slot(lab, conn, "confirmed_flush_lsn > '%s'" % before, place.name, 0.5):
                            break
        worker.ready = streaming
        return worker

    @staticmethod
    def wait_for_slot(lab, conn, condition, name, seconds=60):
        return lab.wait_for(lambda: conn.execute("select %s from pg_replication_slots where slot_name = %%s" % condition,
                                                 (name,)).fetchone()[0], seconds)

    def set_out(self, lab, place):
        with place.connect() as conn:
            conn.execute("select pg_create_logical_replication_slot(%s, 'pgoutput')", (place.name,))

    def clean_up(self, lab, place):
        with place.connect() as conn:
            conn.execute("select pg_terminate_backend(active_pid) from pg_replication_slots where slot_name = %s", (place.name,))
            lab.wait_for(lambda: not conn.execute("select active from pg_replication_slots where slot_name = %s",
                                                  (place.name,)).fetchone()[0])
            conn.execute("select pg_drop_replication_slot(%s)", (place.name,))

    def fill_sql(self):
        return self.insert + "select gen_random_uuid(), 'orders', i::text, 'placed', " + PAYLOAD + " from " + SERIES


def everybody():
    return [Graphile(), Graphile(keys=1000), PgBoss(), River(), Watermill("queue"), Watermill("offsets"), Gue(), GoOutbox(),
            Procrastinate(), Debezium()]
