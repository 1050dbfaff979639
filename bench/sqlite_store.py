"""SQLite: enqueue and drain beside the bare statements that do the least.

    bench/sqlite_store.py [--quick]     (or through bench/run)

Ours and bare run in turns, so that both see the same machine; ratios are of medians. Wall-clock decides; the ratio by CPU
time stands beside it. The bare table is what an outbox by hand would be at its smallest: a row with an id, a topic and a
payload, an index for what is due, a lease, a delete. It has no dedupe, no order, no attempts, no checks.
"""
import argparse
import json
import os
import shutil
import statistics
import subprocess
import sys
import tempfile

HERE = os.path.dirname(os.path.abspath(__file__))
BUILD = os.environ.get("OUTBOX_BENCH_BUILD", os.path.join(os.path.dirname(HERE), "build"))
RESULTS = os.environ.get("OUTBOX_BENCH_RESULTS", os.path.join(HERE, "results"))
PROGRAM = os.path.join(BUILD, "bench", "sqlite_bench")

# label, ours, bare, messages (full, quick), batch
CASES = [
    ("enqueue and commit, 1 a transaction", "enqueue", "bare", {"full": 4000, "normal": 20000}, 1),
    ("enqueue and commit, 1 a transaction, with a key", "key", "bare", {"full": 4000, "normal": 20000}, 1),
    ("enqueue and commit, 1 a transaction, with a dedupe key", "dedupe", "bare", {"full": 4000, "normal": 20000}, 1),
    ("enqueue, 100 a transaction", "enqueue", "bare", {"full": 50000, "normal": 50000}, 100),
    ("claim and ack, 500 at a time", "drain", "bare-drain", {"full": 50000, "normal": 50000}, 500),
]
BARS = {"enqueue and commit, 1 a transaction", "claim and ack, 500 at a time"}


def measure(folder, mode, sync, count, batch):
    path = os.path.join(folder, "bench.db")
    done = subprocess.run([PROGRAM, mode, path, sync, str(count), str(batch)], stdout=subprocess.PIPE, text=True, check=True)
    for suffix in ("", "-wal", "-shm"):
        if os.path.exists(path + suffix):
            os.unlink(path + suffix)
    messages, seconds, cpu, p50, p99, longest = done.stdout.split()
    return {"rate": int(messages) / float(seconds), "cpu_us": float(cpu) * 1e6 / int(messages), "p50_us": int(p50),
            "p99_us": int(p99), "max_us": int(longest)}


def median(samples, field):
    return statistics.median(sample[field] for sample in samples)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--quick", action="store_true")
    args = parser.parse_args()
    rounds = 2 if args.quick else 7
    folder = tempfile.mkdtemp(prefix="ob-bench-", dir=os.environ.get("TMPDIR"))
    data = {"name": "sqlite-store", "sqlite": sqlite_version(), "samples": [], "checks": [], "quick": args.quick}
    print("  %-56s %-7s %10s %10s %6s %6s %9s %9s" % ("", "sync", "ours/s", "bare/s", "ratio", "cpu", "p50 ms", "p99 ms"))
    try:
        for label, ours, bare, counts, batch in CASES:
            for sync in ("full", "normal"):
                count = counts[sync] // (10 if args.quick else 1)
                samples = {ours: [], bare: []}
                for _ in range(rounds):
                    for mode in (ours, bare):
                        samples[mode].append(measure(folder, mode, sync, count, batch))
                report(data, label, sync, batch, samples[ours], samples[bare])
    finally:
        shutil.rmtree(folder)
    os.makedirs(RESULTS, exist_ok=True)
    with open(os.path.join(RESULTS, "sqlite-store.json"), "w") as file:
        json.dump(data, file, indent=1)
        file.write("\n")


def sqlite_version():
    import sqlite3
    return sqlite3.sqlite_version


def report(data, label, sync, batch, ours, bare):
    ratio = median(ours, "rate") / median(bare, "rate")
    cpu = median(bare, "cpu_us") / median(ours, "cpu_us")
    p50, p99 = median(ours, "p50_us") / 1000, median(ours, "p99_us") / 1000
    print("  %-56s %-7s %10s %10s %6.2f %6.2f %9.2f %9.2f" % (
        label, sync, "{:,.0f}".format(median(ours, "rate")), "{:,.0f}".format(median(bare, "rate")), ratio, cpu, p50, p99),
        flush=True)
    data["samples"].append({"label": label, "synchronous": sync, "ours": ours, "bare": bare})
    if label in BARS:
        data["checks"].append({"what": "SQLite, %s, %s: ours / bare" % (label, sync), "value": ratio, "bar": 0.5,
                               "at_most": False, "cpu": cpu, "pass": ratio >= 0.5})
    if batch == 500:
        data["checks"].append({"what": "SQLite, %s: p99 of a write transaction, ms" % sync, "value": p99, "bar": 5.0,
                               "at_most": True, "cpu": None, "pass": p99 <= 5.0})


if __name__ == "__main__":
    sys.exit(main())
