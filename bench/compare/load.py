"""Producers beside a worker: build/bench/peer_load, and what comes of its stamps and the worker's."""
import contextlib
import json
import os
import subprocess
import tempfile
import time

from compare.lab import Meter
from compare.worker import Failed

WARM_SECONDS = 1.0   # at the start, left out
GRACE_SECONDS = 1.5  # for the worker to catch up with producers that are done


def command(lab, system, place, enqueue=True, keys=None, **options):
    """The line that produces into a system; options become --names."""
    line = [os.path.join(lab.options.build, "bench/peer_load"), place.conninfo(system.user)]
    if enqueue:
        line += ["--enqueue", system.enqueue, "--keys", str(system.keys if keys is None else keys)]
        if system.ring:
            line += ["--ring", system.ring, "--ring-ms", str(system.ring_ms)]
    for name, value in options.items():
        line += ["--" + name.replace("_", "-"), str(value)]
    return line


def produce(line, timeout=600):
    done = subprocess.run(line, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, timeout=timeout)
    if done.returncode != 0:
        raise Failed(done.stderr.strip()[-500:])
    return json.loads(done.stdout)


def read_stamps(path):
    """{number: microseconds}; of several deliveries the first."""
    found = {}
    if os.path.exists(path):
        with open(path) as file:
            for line in file:
                number, us = line.split()
                if int(us) < found.get(int(number), 1 << 62):
                    found[int(number)] = int(us)
    return found


def percentile(values, share):
    ordered = sorted(values)
    return ordered[min(len(ordered) - 1, int(len(ordered) * share))]


@contextlib.contextmanager
def held_xmin(place):
    """An open REPEATABLE READ transaction with a snapshot and an xid."""
    with place.connect() as conn:
        conn.execute("begin isolation level repeatable read")
        conn.execute("select txid_current(), count(*) from pg_class")
        yield


def at_rate(lab, system, rate, seconds, clients=8, held=False):
    """Producers at a fixed rate, the worker beside them, on a fresh database; latencies in milliseconds. held: while another
    transaction holds xmin."""
    with lab.fresh(system) as place, held_xmin(place) if held else contextlib.nullcontext(), tempfile.TemporaryDirectory(prefix="outbox-bench-") as folder:
        made_path, came_path = os.path.join(folder, "made"), os.path.join(folder, "came")
        worker = system.worker(lab, place, stamps=came_path)
        worker.start()
        try:
            worker.ready()
            worker.go()
            meter = Meter(place, worker).start()
            made = produce(command(lab, system, place, rate=rate, seconds=seconds + WARM_SECONDS, clients=clients,
                                   stamps=made_path))
            produced_at = time.time()
            cost = meter.stop(max(1, made["produced"]))
            time.sleep(min(GRACE_SECONDS, 0.5 + rate * seconds / 10000))
            worker.finish()
        finally:
            worker.stop()
        return {**judge(rate, read_stamps(made_path), read_stamps(came_path), made, produced_at * 1e6),
                **{key: cost[key] for key in ("server_us", "worker_us", "wal", "peak_mb")}}


def judge(rate, made, came, load, end_us):
    """Sustained: producers kept the rate, and when the last one was done little was left: what came in during a twentieth of
    the sample, but no less than a fifth of a second's messages, and no more than half a second's."""
    start = min(made.values()) + WARM_SECONDS * 1e6
    late = [max(0.0, (came[number] - us) / 1e3) for number, us in made.items() if us >= start and number in came]
    quarter = len(late) // 4 or 1  # in the order of the numbers, which is that of time
    left = sum(1 for number in made if came.get(number, 1 << 62) > end_us)
    if not late:
        raise Failed("nothing of %d messages was delivered" % len(made))
    kept = load["produced"] / load["seconds"]
    return {"rate": rate, "produced_rate": kept, "handled_rate": (len(made) - left) / load["seconds"],
            "behind": left, "lost": len(made) - len(set(made) & set(came)),
            "sustained": kept >= 0.97 * rate and left <= max(2, rate * min(0.5, max(0.2, 0.05 * load["seconds"]))),
            "p50": percentile(late, 0.5), "p95": percentile(late, 0.95), "p99": percentile(late, 0.99),
            "worst": max(late), "seconds": load["seconds"],
            "p50_first": percentile(late[:quarter], 0.5), "p50_last": percentile(late[-quarter:], 0.5)}
