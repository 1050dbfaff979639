"""Bad weather: a drain beside the same drain in calm.

held xmin: another session's transaction stays open, so nothing can be vacuumed; with 60 minutes and more also for five minutes at
1,000 messages a second: the p50 of the first quarter → of the last. backlog: a million messages, or of slow systems
five times as many as in calm. straggler: a transaction that has enqueued a message before all others stays open. 64 workers: so
many connections that take at once; of Outbox so many relays. poisoned key: a tenth of the messages has one key, and the receiver
refuses it. silent receiver: every hundredth message gets no answer and runs into its time limit of a second. A straggler, a
poisoned key and a silent receiver are Outbox only, and beside a calm drain into the same receiver, a plugin of the relay."""
import contextlib
import os
import tempfile
import time

from compare import load
from compare.drain import drain, without_start
from compare.lab import Meter
from compare.life import sizes
from compare.worker import Failed
from harness import fill
from harness.server import DELIVERED

NAME, TITLE = "weather", "bad weather: a drain beside the same drain in calm"
WHO = ("floor", "outbox", "outbox-keys", "pgmq-delete", "graphile-worker", "pg-boss", "river")
BULK = ("floor", "outbox", "pgmq")  # families that drain a million soon
WORKERS = 64
SILENT = {"silent": 100, "timeout": "1s", "concurrency": 1000, "batch": 500}  # room for those that wait, beside the others


def one(lab, system, count, held=False, crowd=0, life=False):
    with lab.fresh(system, lab.filled(system, count)) as place:
        with load.held_xmin(place) if held else contextlib.nullcontext():
            values = drain(lab, system, place, count, **({"connections": crowd} if crowd else {}))
        if life:
            values.update(afterwards(place, count))
    return without_start(lab, system, values, connections=crowd) if system.ours else values


def afterwards(place, count):
    """What a vacuum takes, and what stays; per message."""
    meter = Meter(place).start()
    with place.connect() as conn:
        conn.execute("vacuum")
    vacuum, kept = meter.stop(count), sizes(place)
    return {"vacuum_us": vacuum["server_us"], "vacuum_wal": vacuum["wal"], "table_bytes": kept[0] / count,
            "index_bytes": kept[1] / count}


@contextlib.contextmanager
def straggler(lab, system, count):
    """A database that was filled while a transaction stayed open that has its number, and a message, before all others."""
    with lab.fresh(system) as place, place.connect(system.user) as conn:
        conn.execute("begin")
        conn.execute("select outbox.enqueue('orders', '{\"i\": 0}'%s)" % (", key => 'straggler'" if system.keys else ""))
        system.fill(lab, place, count)
        with place.connect() as other:
            other.execute("vacuum analyze")
        yield place
        conn.execute("rollback")


def stormy(lab, system, count, sink, poison=0, late=False):
    """A relay that never becomes empty: it runs until everything that can be delivered was, and the stamps say when."""
    database = straggler(lab, system, count) if late else lab.fresh(system, lab.filled(system, count))
    with database as place, tempfile.TemporaryDirectory(prefix="outbox-bench-") as folder:
        if poison:
            with place.connect(system.user) as conn:
                fill.calls(conn, fill.OURS, poison, after=count, keys=1, tenants=0, priorities=False, prefix="poison")
        path = os.path.join(folder, "stamps")
        worker = system.worker(lab, place, stamps=path, sink=sink)
        worker.start()
        try:
            meter = Meter(place, worker).start()
            with place.connect() as conn:
                wanted = count - (count // sink["silent"] + 1 if sink.get("silent") else 0)
                wait_for_attempts(conn, wanted, lab.patience(300))
            cost = meter.stop(count)
            worker.finish()
        finally:
            worker.stop()
        came = sorted(load.read_stamps(path).values())
    reached = came[:wanted]
    if len(reached) < wanted:
        raise Failed("%d of %d were delivered" % (len(reached), wanted))
    seconds = (reached[-1] - reached[0]) / 1e6
    return {"count": count, "seconds": seconds, "rate": wanted / max(seconds, 0.001), "server_us": cost["server_us"],
            "worker_us": cost["worker_us"], "wal": cost["wal"], "peak_mb": cost["peak_mb"]}


def wait_for_attempts(conn, wanted, timeout):
    end = time.monotonic() + timeout
    while conn.execute(DELIVERED).fetchone()[0] < wanted:
        if time.monotonic() > end:
            raise Failed("not everything was delivered within %d s" % timeout)
        time.sleep(0.5)


def count_of(lab, system):
    """Of ours enough for a second or two: the bars are about them."""
    return lab.options.messages or (500 if lab.quick else 200000 if not lab.brief else 150000 if system.ours else 50000)


def many_of(lab, system):
    return 1000000 if system.family in BULK and not lab.quick and not lab.options.messages else 5 * count_of(lab, system)


def needed(lab, system, count):
    """(label, measure) of what the bars compare."""
    if not system.ours:
        return
    many = many_of(lab, system)
    yield "calm", lambda: one(lab, system, count)
    yield "calm, plugin", lambda: stormy(lab, system, count, {})
    yield "straggler", lambda: stormy(lab, system, count, {}, late=True)
    if system.keys:
        yield "poisoned key", lambda: stormy(lab, system, count, {"refuse": "poison0"}, poison=count // 10)
    else:
        first = not any(row["label"] == "backlog" for row in lab.results["samples"])
        yield "backlog", lambda: one(lab, system, many, life=first)


def others(lab, system, count):
    """(label, measure) of all else that a system can be put through."""
    if not system.ours:
        yield "calm", lambda: one(lab, system, count)
    yield "held xmin", lambda: one(lab, system, count, held=True)
    if not lab.brief and not lab.quick and system.family in BULK:
        yield "held xmin, 5 minutes", lambda: load.at_rate(lab, system, 1000, 300, held=True)
    if system.ours or system.family in BULK:
        yield "64 workers", lambda: one(lab, system, count, crowd=WORKERS)
    if system.ours:
        yield "silent receiver", lambda: stormy(lab, system, count, SILENT)
    else:
        many = many_of(lab, system)
        yield "backlog", lambda: one(lab, system, many, life=True)


def each(lab, systems, conditions):
    lab.results["about"] = [__doc__.split("\n\n", 1)[1].replace("\n", " ") + "\n"]
    for system in systems:
        if system.name in WHO:
            for label, measure in conditions(lab, system, system.size(count_of(lab, system), 8)):
                lab.take(system, label, measure)


def bars(lab, systems, turn):
    each(lab, systems, needed)


def rest(lab, systems, turn):
    each(lab, systems, others)
