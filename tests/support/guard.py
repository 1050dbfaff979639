"""Counts what the hot paths do: instructions, allocations, statements, buffers, bytes of WAL, steps and pages of SQLite.

Counts only, never times, so that they are the same on a busy machine. Each function returns {name: figure per message or per
batch}. tests/guard/test_guard.py compares them with tests/guard/expected.json; `tools/guard --accept` rewrites that file.
"""
import json
import os
import re
import sqlite3
import subprocess

from support.database import BUILD, ROOT, create_database
from support.pgserver import PgServer, find_bindir
from support.relay import Relay

EXPECTED = os.path.join(ROOT, "tests", "guard", "expected.json")
BATCH, BATCHES, WARM = 500, 6, 2
# Statements that come with time, not with work, and so more often on a slow machine: the turn of tenants, the look for lost windows.
TIMED = r"with recursive t\(n, tenants|and k\.open order by k\.id"
# By how much a count may differ, of what is expected. Statements do not depend on anything: one more of a dozen is seen.
TOLERANCE = {"core": 0.05, "sqlite": 0.05, "pg_enqueue": 0.1, "pg_log": 0.1, "pg_queue": 0.1, "pg_relay": 0.2}


def read_expected():
    with open(EXPECTED) as file:
        return json.load(file)


def versions():
    """What the counts depend on besides our own code."""
    compiler = subprocess.run(["gcc", "-dumpversion"], stdout=subprocess.PIPE, text=True, check=False).stdout.strip()
    postgres = re.search(r"/(\d+)/bin", (find_bindir() or "") + "/")
    return {"core": "gcc " + compiler, "sqlite": "SQLite " + sqlite3.sqlite_version,
            "pg": "PostgreSQL " + (postgres.group(1) if postgres else "none")}


def unlike(group):
    """Why this machine's counts cannot be compared with those expected; "" if they can."""
    kind = group.split("_")[0]
    want, got = read_expected()["made_with"][kind], versions()[kind]
    return "" if want == got else "expected.json was made with %s, this is %s" % (want, got)


def differences(group, expected, figures):
    """What is wrong, as lines of text."""
    lines = []
    for name in sorted(set(expected) | set(figures)):
        want, got = expected.get(name), figures.get(name)
        if want is None or got is None:
            lines.append("%s.%s: expected %s, counted %s" % (group, name, want, got))
        elif name == "trips":
            if got > 2 * want:
                lines.append("%s.%s: expected about %s, counted %s" % (group, name, want, got))
        elif abs(got - want) > (0.05 if name.endswith("statements") else TOLERANCE[group]) * want + 0.011:
            more = " (%+.0f %%)" % (100 * (got / want - 1)) if want else ""
            lines.append("%s.%s: expected %s, counted %s%s" % (group, name, want, got, more))
    return lines


# ---- the core -------------------------------------------------------------------------------------------------------------


def core(_folder):
    """Instructions and allocations of a message on its way through the machine; the start is subtracted."""
    program = os.path.join(BUILD, "tests", "guard", "core_path")

    def count(messages):
        done = subprocess.run(["valgrind", "--tool=callgrind", "--callgrind-out-file=/dev/null", program, str(messages)],
                              stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, check=True)
        return [int(re.search(pattern, text).group(1)) for pattern, text in
                ((r"Collected : (\d+)", done.stderr), (r"allocations (\d+)", done.stdout))]

    few, many = count(1000), count(3000)
    return {"instructions": round((many[0] - few[0]) / 2000), "allocations": round((many[1] - few[1]) / 2000, 3)}


# ---- SQLite ---------------------------------------------------------------------------------------------------------------


def sqlite(folder):
    program = os.path.join(BUILD, "tests", "guard", "sqlite_path")
    done = subprocess.run([program, os.path.join(folder, "guard.db"), "2000"], stdout=subprocess.PIPE, text=True, check=True)
    return {name: float(value) for name, value in (line.split() for line in done.stdout.splitlines())}


# ---- PostgreSQL -----------------------------------------------------------------------------------------------------------


def server():
    """One that does nothing by itself."""
    return PgServer(settings={"shared_preload_libraries": "pg_stat_statements", "pg_stat_statements.track": "all",
                              "compute_query_id": "on", "autovacuum": "off", "wal_level": "minimal", "max_wal_senders": "0",
                              "checkpoint_timeout": "1h", "max_wal_size": "4GB", "bgwriter_lru_maxpages": "0"})


def statement(name):
    """The text of sql/postgres/stmt/NAME.sql, with parameters as psycopg writes them."""
    with open(os.path.join(ROOT, "sql", "postgres", "stmt", name + ".sql")) as file:
        text = re.sub(r"^--.*\n", "", file.read(), flags=re.M)
    return re.sub(r"\$(\d+)", r"%(p\1)s", text.replace("@schema@", "outbox"))


class Counter:
    """Statements as a worker of ours sends them, each in a transaction of its own, and what they cost the server."""

    def __init__(self, database):
        self.conn = database.connect(autocommit=True)
        self.conn.execute("CREATE EXTENSION IF NOT EXISTS pg_stat_statements")
        self.texts = {}

    def run(self, name, *params):
        """The statement with its first parameters; the others are null."""
        text = self.texts.setdefault(name, statement(name))
        count = max(map(int, re.findall(r"%\(p(\d+)\)s", text)))
        values = {"p%d" % (i + 1): params[i] if i < len(params) else None for i in range(count)}
        from psycopg.rows import dict_row
        with self.conn.cursor(row_factory=dict_row) as cursor:
            return cursor.execute(text, values, prepare=True).fetchall()

    def wal(self):
        return self.conn.execute("SELECT pg_wal_lsn_diff(pg_current_wal_insert_lsn(), '0/0')").fetchone()[0]

    def count(self, body, times):
        """WAL bytes, buffers touched and statements, nested ones too, per time of `times`."""
        self.conn.execute("SELECT pg_stat_statements_reset()")
        before = self.wal()
        body()
        wal = self.wal() - before
        buffers, statements = self.conn.execute(
            "SELECT sum(shared_blks_hit + shared_blks_read) FILTER (WHERE toplevel), sum(calls) FROM pg_stat_statements"
            " WHERE query !~ %s", ("pg_stat_statements|pg_wal_lsn_diff|" + TIMED,)).fetchone()
        return {"wal": round(float(wal) / times, 1), "buffers": round(float(buffers) / times, 1),
                "statements": round(float(statements) / times, 2)}

    def close(self):
        self.conn.close()


def fill(counter, count, lane):
    counter.conn.execute("SELECT outbox.configure('*', 'lane', %s)", (lane,))
    counter.conn.execute("SELECT outbox.enqueue('t', '{\"id\": 42}') FROM generate_series(1, %d)" % count)


def named(prefix, figures):
    return {"%s_%s" % (prefix, name): value for name, value in figures.items()}


def pg_enqueue(counter):
    """Per message, a transaction each."""
    def many(count, key):
        for i in range(count):
            counter.run("enqueue", "t", '{"id": 42}', "key-%d" % (i % 100) if key else None)
    figures = {}
    for name, lane, key in (("queue", "queue", False), ("log", "log", False), ("log_key", "log", True)):
        fill(counter, 0, lane)
        many(300, key)
        figures.update(named(name, counter.count(lambda key=key: many(1000, key), 1000)))
    return figures


def pg_log(counter):
    """WAL per message; buffers and statements per batch: take, page, settle_window."""
    parts = {"take": [], "page": [], "settle": []}

    def batch(number):
        rows = {}

        def take():
            rows["window"] = counter.run("take", "guard", BATCH, "30s", number, None, None, 16)[0]

        def page():
            rows["page"] = counter.run("page", number)

        def settle():
            window = rows["window"]
            ids = [row["id"] for row in rows["page"]]
            counter.run("settle_window", [window["shard"]], [window["id"]], [number], [0], [1] * len(ids), ids, [1] * len(ids), None, None,
                        None, None, None, [1000] * len(ids), None, None, "guard", "30s", False)
        for name, step in (("take", take), ("page", page), ("settle", settle)):
            parts[name].append(counter.count(step, 1))
        assert rows["window"]["size"] == len(rows["page"]) == BATCH, rows["window"]

    fill(counter, BATCH * (WARM + BATCHES), "log")
    for i in range(WARM + BATCHES):
        batch(i + 1)
    return summary(parts)


def pg_queue(counter):
    """The same for messages that are queued: claim and settle."""
    parts = {"claim": [], "settle": []}

    def batch():
        rows = {}

        def claim():
            rows["claim"] = counter.run("claim", "guard", BATCH, "30s", *[None] * 4, 16, False, *[None] * 10, False)

        def settle():
            got = rows["claim"]
            counter.run("settle", [row["id"] for row in got], [row["token"] for row in got], [1] * len(got), None, None, None, None, None,
                        [1000] * len(got), [row["place"] for row in got], "guard")
        for name, step in (("claim", claim), ("settle", settle)):
            parts[name].append(counter.count(step, 1))
        assert len(rows["claim"]) == BATCH

    fill(counter, BATCH * (WARM + BATCHES), "queue")
    for _ in range(WARM + BATCHES):
        batch()
    return summary(parts)


def summary(parts):
    """The leanest of the batches after the first few: on a slow machine some have a sweep too, which comes twice a second."""
    figures = {}
    for name, counted in parts.items():
        least = {field: min(one[field] for one in counted[WARM:]) for field in counted[0]}
        figures.update({name + "_wal": round(least["wal"] / BATCH, 2), name + "_buffers": round(least["buffers"], 1),
                        name + "_statements": round(least["statements"], 2)})
    return figures


def pg_relay(counter, database, folder):
    """Round trips of a relay that had messages, per 500 of them: a take, a page and a settle or more for each window; and what a
    message costs in WAL from take to settle. How it cuts its batches depends on the moment: only twice as many are told."""
    total = 10 * BATCH
    fill(counter, total, "log")
    relay = Relay(folder, database.url(), {"out": {"kind": "null"}}, [{"sink": "out"}], log={"level": "info"})
    before = counter.wal()
    relay.start("--until-empty")
    relay.wait(120)
    wal = counter.wal() - before
    trips = counter.conn.execute("SELECT 2 * (SELECT count(*) FROM outbox.log_window WHERE size > 0) + (SELECT count(*) FROM outbox.attempt)"
                                 ).fetchone()[0]
    left = counter.conn.execute("SELECT count(*) FROM outbox.messages WHERE status <> 'delivered'").fetchone()[0]
    assert left == 0, "%d messages are left" % left
    return {"wal": round(float(wal) / total, 1), "trips": round(float(trips) * BATCH / total, 2)}


def postgres(folder):
    """All groups of PostgreSQL."""
    figures = {}
    with server() as running:
        template = create_database(running, "guard_template")
        template.cli("migrate")
        for group in ("pg_enqueue", "pg_log", "pg_queue", "pg_relay"):
            database = create_database(running, group, template.name)
            counter = Counter(database)
            try:
                more = (database, folder) if group == "pg_relay" else ()
                figures[group] = globals()[group](counter, *more)
            finally:
                counter.close()
    return figures
