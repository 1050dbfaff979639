"""What one enqueue adds to a business transaction: time, CPU and WAL; and the WAL of a message's whole life."""
import os
import re
import subprocess
import tempfile

from harness.relay import Relay

NAME = "enqueue-cost"
TITLE = "what an enqueue adds to a one-row business transaction, and WAL over a message's life"

ORDERS = "create table orders (id bigint generated always as identity primary key, customer int, total int)"
LABELS = [("none", "the order alone"), ("plain", "+ enqueue"), ("key", "+ enqueue, key"),
          ("dedupe", "+ enqueue, dedupe key"), ("both", "+ enqueue, both"), ("busy", "+ enqueue, a busy relay"),
          ("calm", "+ enqueue, a calm relay: it rings")]
LSN = "select pg_wal_lsn_diff(pg_current_wal_insert_lsn(), '0/0')"

SCRIPT = """
begin;
insert into orders (customer, total) values (1, 100);
{enqueue}
commit;
"""
ENQUEUE = "select id from outbox.enqueue('orders', jsonb_build_object('pad', repeat('x', 188)));"


def one_by_one(bench, report):
    """Turn by turn on connections of their own: 100 transactions each, many rounds."""
    for _ in range(bench.times(3)):
        with bench.fresh() as database:
            with bench.connect(database) as conn:
                conn.execute(ORDERS)
            got = bench.pg_bench("enqueue-cost", database, count=bench.size(100, 20), rounds=bench.size(30, 5),
                                 keys=1000)
        for name, _ in LABELS:
            report.sample(name, **got["variants"][name])
    base = {field: report.median("none", field) for field in ("median_us", "cpu_us", "wal_bytes")}
    rows = []
    for name, label in LABELS:
        row = [label]
        for field in ("median_us", "cpu_us", "wal_bytes"):
            value = report.median(name, field)
            row += [value, value - base[field]]
        rows.append(row)
    print("  one connection, each statement its own round trip, synchronous commit; no relay but in the last two")
    report.table(["", "us", "added", "backend CPU us", "added", "WAL bytes", "added"], rows)


def crowded(bench, report):
    """The same from many clients, by pgbench."""
    clients, seconds = 8, bench.size(10, 1)
    with tempfile.TemporaryDirectory() as folder:
        scripts = {}
        for name, enqueue in (("alone", ""), ("with", ENQUEUE)):
            scripts[name] = os.path.join(folder, name + ".sql")
            with open(scripts[name], "w") as file:
                file.write(SCRIPT.format(enqueue=enqueue))
        with bench.fresh() as database:
            with bench.connect(database) as conn:
                conn.execute(ORDERS)
                conn.execute("select pg_advisory_lock_shared(outbox.doorbell_class(), -1)")  # as a busy relay does
                conn.execute("select pg_advisory_lock(outbox.doorbell_class(), 0)")
                for _ in range(bench.rounds):
                    for name, path in scripts.items():
                        report.sample("pgbench " + name, tps=pgbench(bench, database, path, clients, seconds))
    alone, along = report.median("pgbench alone", "tps"), report.median("pgbench with", "tps")
    print("  pgbench, %d clients, %d s each, turn by turn" % (clients, seconds))
    report.table(["", "transactions/s", "/ alone"],
                 [["the order alone", alone, 1.0], ["+ enqueue", along, along / alone]])


def pgbench(bench, database, script, clients, seconds):
    line = [os.path.join(bench.server.bindir, "pgbench"), "-n", "-M", "prepared", "-c", str(clients), "-j", "2",
            "-T", str(seconds), "-f", script, bench.place(database)]
    done = subprocess.run(line, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
    found = re.search(r"tps = ([0-9.]+)", done.stdout)
    if done.returncode != 0 or not found:
        raise RuntimeError("pgbench failed:\n" + done.stdout)
    return float(found.group(1))


def whole_life(bench, report):
    """WAL from enqueue to delivered: enqueued one a transaction, drained by a relay with the null sink."""
    count = bench.size(50000, 5000)
    for label, keys in (("no keys", 0), ("1000 keys", 1000)):
        with bench.fresh() as database, bench.connect(database, "postgres") as conn:
            wal = [conn.execute(LSN).fetchone()[0]]
            conn.execute("select set_config('bench.fill', %s, false)", ("%d,%d" % (keys, count),))
            conn.execute("set synchronous_commit = off")  # writes the same, sooner
            conn.execute(SINGLES)
            wal.append(conn.execute(LSN).fetchone()[0])
            bench.settle_down(database)
            wal.append(conn.execute(LSN).fetchone()[0])
            with Relay(bench, database, sinks={"out": {"kind": "null"}}, until_empty=True) as relay:
                relay.wait()
            wal.append(conn.execute(LSN).fetchone()[0])
        enqueue, drained = float(wal[1] - wal[0]) / count, float(wal[3] - wal[2]) / count
        report.sample("life, " + label, enqueue_bytes=enqueue, drain_bytes=drained, life_bytes=enqueue + drained)
    print("  WAL bytes of a message of 200 bytes: enqueued one a transaction, delivered by outbox run")
    report.table(["", "enqueue", "delivery", "whole life"],
                 [["life, " + label] + [report.median("life, " + label, field)
                                        for field in ("enqueue_bytes", "drain_bytes", "life_bytes")]
                  for label in ("no keys", "1000 keys")])


# Commits after each: a procedural block may, so that no client is in the way. The commit record counts as well.
SINGLES = """
do $$
declare
    settings constant text[] := string_to_array(current_setting('bench.fill'), ',');
begin
    for i in 1 .. settings[2]::int loop
        perform outbox.enqueue('orders', jsonb_build_object('i', i, 'pad', repeat('x', 181 - length(i::text))),
            key => 'k' || (i % nullif(settings[1]::int, 0)));
        commit;
    end loop;
end
$$
"""


def measure(bench, report):
    one_by_one(bench, report)
    crowded(bench, report)
    whole_life(bench, report)
