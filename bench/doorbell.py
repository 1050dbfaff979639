#!/usr/bin/python3
"""Commits a second of 32 producers: no wake-up at all, the doorbell, NOTIFY in every commit.

One enqueue a transaction. First with a relay that claims nothing, so that only the wake-up differs: there is none, it sleeps, or
is busy and holds the doorbell. Then with one that drains all the while, woken or polling. Turn by turn; run by bench/run doorbell.
"""
import argparse
import json
import os
import re
import statistics
import subprocess
import sys
import tempfile
import time

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path[:0] = [HERE, os.path.dirname(HERE)]

import psycopg  # noqa: E402

from harness import report  # noqa: E402
from tests.support.pgserver import find_bindir  # noqa: E402

CLIENTS = 32
PAYLOAD = '{"pad": "%s"}' % ("x" * 188)
# How producers enqueue. In the namespace "silent" the doorbell is off.
ENQUEUE = {
    "none": "select outbox.enqueue('orders', '%s', namespace => 'silent');" % PAYLOAD,
    "doorbell": "select outbox.enqueue('orders', '%s', namespace => 'default');" % PAYLOAD,
    "notify": "select outbox.enqueue('orders', '%s', namespace => 'silent'), pg_notify('bench', '');" % PAYLOAD,
}
# label: how, beside which relay, what the table calls it
SIDES = {
    "none": ("none", "sleep", "no wake-up at all"),
    "nobody": ("doorbell", "nobody", "doorbell, nobody listens"),
    "calm": ("doorbell", "sleep", "doorbell, a relay sleeps all the time"),
    "doorbell": ("doorbell", "busy", "doorbell, a relay is busy"),
    "notify": ("notify", "sleep", "NOTIFY in every commit"),
    "none, drained": ("none", "drain", "no wake-up, a relay polls and drains"),
    "doorbell, drained": ("doorbell", "drain", "doorbell, a relay drains"),
}


class Relay:
    """A relay beside the producers, until the block ends."""

    def __init__(self, place, what):
        self.did, self.process = {"messages": 0}, None
        if what == "nobody":
            return
        program = os.path.join(os.environ["OUTBOX_BENCH_BUILD"], "bench", "doorbell")
        self.process = subprocess.Popen([program, what, place], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)

    def __enter__(self):
        if self.process and self.process.stdout.readline() != "ready\n":
            raise RuntimeError("the relay did not get ready")
        return self

    def __exit__(self, *_):
        if self.process:
            out, _ = self.process.communicate()
            self.did = json.loads(out)


def server_cpu(conn):
    """Seconds of CPU of all backends that have ended: the server's main process counts them."""
    backend = conn.execute("select pg_backend_pid()").fetchone()[0]
    with open("/proc/%d/stat" % backend) as file:
        parent = file.read().rsplit(")", 1)[1].split()[1]
    with open("/proc/%s/stat" % parent) as file:
        fields = file.read().rsplit(")", 1)[1].split()
    return (int(fields[13]) + int(fields[14])) / os.sysconf("SC_CLK_TCK")


def others(conn):
    return conn.execute("select count(*) from pg_stat_activity where backend_type = 'client backend' and "
                        "application_name = 'pgbench'").fetchone()[0]


def pgbench(place, script, seconds):
    command = [os.path.join(find_bindir(), "pgbench"), "-n", "-M", "prepared", "-c", str(CLIENTS), "-j", "2", "-T",
               str(seconds), "-f", script, place]
    done = subprocess.run(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
    tps = re.search(r"tps = ([0-9.]+)", done.stdout)
    count = re.search(r"transactions actually processed: (\d+)", done.stdout)
    if done.returncode != 0 or not tps or not count:
        raise RuntimeError("pgbench failed:\n" + done.stdout)
    return float(tps.group(1)), int(count.group(1))


def sample(conn, place, folder, label, seconds):
    how, relay, _ = SIDES[label]
    conn.execute("set session_replication_role = replica")
    conn.execute("truncate outbox.message, outbox.queue, outbox.attempt")
    conn.execute("reset session_replication_role")
    conn.execute("checkpoint")
    script = os.path.join(folder, how + ".sql")
    with open(script, "w") as file:
        file.write(ENQUEUE[how] + "\n")
    with Relay(place, relay) as beside:
        before = server_cpu(conn)
        tps, count = pgbench(place, script, seconds)
        while others(conn):
            time.sleep(0.01)
        cpu = server_cpu(conn) - before
    return {"label": label, "tps": tps, "cpu_us": cpu / count * 1e6, "relay": beside.did}


def median(samples, label, field):
    return statistics.median(row[field] for row in samples if row["label"] == label)


def check(what, value, bar, cpu):
    return {"what": what, "value": value, "bar": bar, "at_most": False, "cpu": cpu, "pass": value >= bar}


def show(samples):
    print("  %-38s %14s %8s %16s %10s" % ("%d clients, one enqueue a transaction" % CLIENTS, "commits/s", "/ none",
                                          "backend CPU us", "drained/s"))
    for label, (_, relay, text) in SIDES.items():
        base = "none, drained" if relay == "drain" else "none"
        tps = median(samples, label, "tps")
        drained = [row["drained"] for row in samples if row["label"] == label]
        print("  %-38s %14s %8.2f %16.0f %10s" % (text, "{:,.0f}".format(tps), tps / median(samples, base, "tps"),
                                                 median(samples, label, "cpu_us"),
                                                 "{:,.0f}".format(statistics.median(drained)) if relay == "drain" else "-"))
    print(flush=True)


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--quick", action="store_true")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--seconds", type=int, default=3, help="of each sample")
    args = parser.parse_args()
    if "OUTBOX_BENCH_PG" not in os.environ:
        parser.error("run it by: bench/run doorbell")
    if args.quick:
        args.rounds, args.seconds = 1, 1
    place, samples = os.environ["OUTBOX_BENCH_PG"], []
    with psycopg.connect(place, autocommit=True) as conn, tempfile.TemporaryDirectory() as folder:
        conn.execute("select outbox.configure('silent', 'doorbell', 'off')")
        labels = list(SIDES)
        for number in range(args.rounds):
            for label in labels[number % 2 and slice(None, None, -1) or slice(None)]:
                row = sample(conn, place, folder, label, args.seconds)
                row["drained"] = row["relay"]["messages"] / args.seconds
                samples.append(row)
    show(samples)
    none, nobody, doorbell, notify = (median(samples, label, "tps") for label in ("none", "nobody", "doorbell", "notify"))
    result = {
        "samples": samples, "rounds": args.rounds, "seconds": args.seconds, "clients": CLIENTS,
        "medians": {label: median(samples, label, "tps") for label in SIDES},
        "ratios": {"doorbell / none": doorbell / none, "nobody / none": nobody / none, "notify / none": notify / none},
        "checks": [check("doorbell, nobody listens / no wake-up, 32 clients", nobody / none, 0.9,
                         median(samples, "none", "cpu_us") / median(samples, "nobody", "cpu_us")),
                   check("doorbell with a busy relay / no wake-up, 32 clients", doorbell / none, 0.9,
                         median(samples, "none", "cpu_us") / median(samples, "doorbell", "cpu_us"))],
    }
    for row in result["checks"]:
        print("  " + report.check_text(row), flush=True)
    with open(os.path.join(os.environ["OUTBOX_BENCH_RESULTS"], "doorbell.json"), "w") as file:
        json.dump(result, file, indent=1)
        file.write("\n")


if __name__ == "__main__":
    main()
