"""Bad weather: a drain beside the same drain in calm.

held xmin: another session's transaction stays open, so nothing can be vacuumed. backlog: several times as many messages.
64 workers: so many connections that take at once; of Outbox 16 relays. poisoned key: a tenth of the messages has one key, and
the receiver refuses it. silent receiver: every hundredth message gets no answer and runs into its time limit of a second. The
last two are Outbox only: the receiver is a plugin of the relay."""
import contextlib
import os
import tempfile
import time

from compare import load
from compare.drain import drain, without_start
from compare.lab import Meter
from compare.worker import Failed
from harness import fill

NAME, TITLE, SHARE = "weather", "bad weather: a drain beside the same drain in calm", 0.12
WHO = ("floor", "outbox", "outbox-keys", "pgmq-delete", "graphile-worker", "pg-boss", "river")
BACKLOG = 5  # times the calm one
RELAYS, CONNECTIONS = 16, 64
SILENT = {"silent": 100, "timeout": "1s", "concurrency": 1000, "batch": 500}  # room for those that wait, beside the others


@contextlib.contextmanager
def held_xmin(place):
    """An open REPEATABLE READ transaction with a snapshot and an xid."""
    with place.connect() as conn:
        conn.execute("begin isolation level repeatable read")
        conn.execute("select txid_current(), count(*) from pg_class")
        yield


def one(lab, system, filled, count, held=False, crowd=0):
    with lab.fresh(system, filled(system, count)) as place:
        with held_xmin(place) if held else contextlib.nullcontext():
            values = drain(lab, system, place, count, **({"connections": crowd} if crowd else {}))
    return without_start(lab, system, values, connections=crowd) if system.ours else values


def stormy(lab, system, filled, count, sink, poison=0):
    """A relay that never becomes empty: it runs until everything that can be delivered was, and the stamps say when."""
    with lab.fresh(system, filled(system, count)) as place, tempfile.TemporaryDirectory(prefix="outbox-bench-") as folder:
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
                wait_for_attempts(conn, wanted)
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


def wait_for_attempts(conn, wanted, timeout=300):
    end = time.monotonic() + timeout
    while conn.execute("select count(*) from outbox.attempts where outcome = 'delivered'").fetchone()[0] < wanted:
        if time.monotonic() > end:
            raise Failed("not everything was delivered within %d s" % timeout)
        time.sleep(0.5)


def conditions(lab, system, filled, count):
    """(label, measure) of all that a system can be put through."""
    yield "calm", lambda: one(lab, system, filled, count)
    yield "held xmin", lambda: one(lab, system, filled, count, held=True)
    yield "backlog × %d" % BACKLOG, lambda: one(lab, system, filled, BACKLOG * count)
    if system.ours or system.family in ("floor", "pgmq"):
        yield "64 workers", lambda: one(lab, system, filled, count, crowd=RELAYS if system.ours else CONNECTIONS)
    if system.ours:
        yield "silent receiver", lambda: stormy(lab, system, filled, count, SILENT)
    if system.ours and system.keys:
        yield "poisoned key", lambda: stormy(lab, system, filled, count, {"refuse": "poison0"}, poison=count // 10)


def run(lab, systems):
    count = lab.options.messages or (500 if lab.quick else 50000 if lab.options.budget < 60 else 200000)
    chosen = [system for system in systems if system.name in WHO]
    lab.results["sizes"] = {"messages": count, "backlog": BACKLOG * count}
    lab.results["about"] = [__doc__.split("\n\n", 1)[1].replace("\n", " ") + "\n"]
    with lab.stock() as filled:
        for _ in lab.rounds(3):
            for system in chosen:
                for label, measure in conditions(lab, system, filled, count):
                    lab.take(system, label, measure)
