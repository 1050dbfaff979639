"""A backlog with a no-op delivery: how fast it goes, and what server and worker pay for a message."""
from compare.lab import Meter
from compare.worker import Failed

NAME, TITLE = "drain", "drain of a backlog, no-op delivery"
BARS = ("floor", "outbox", "outbox-keys", "pgq", "pgmq-delete", "watermill-queue")  # what the bars compare
LEAST_SECONDS = 120  # a drain may take


def drain(lab, system, place, count, worker=None, **options):
    """Works a filled database until it is empty; returns what that took."""
    worker = worker or system.worker(lab, place, count=count, **options)
    worker.start()
    try:
        worker.ready()
        meter = Meter(place, worker).start()
        worker.go()
        done = worker.done(lab.patience(LEAST_SECONDS + count / 200))
        values = meter.stop(done)
    finally:
        worker.stop()
    if done < count:
        raise Failed("%d of %d were handled" % (done, count))
    left = system.left(place, count)
    if left:
        raise Failed("%d of %d are left" % (left, count))
    return values


def one(lab, system, count):
    with lab.fresh(system, None if system.in_place else lab.filled(system, count)) as place:
        if system.in_place:
            system.fill(lab, place, count)
        values = drain(lab, system, place, count)
    return without_start(lab, system, values) if system.ours else values


def without_start(lab, system, values, **options):
    """Peers were connected before the clock ran. A relay that drains starts with it: what the same command takes when
    there is nothing to do is taken off."""
    with lab.fresh(system) as place:
        worker = system.worker(lab, place, count=1, **options)
        meter = Meter(place, worker).start()
        worker.start()
        worker.go()
        worker.done(lab.patience(LEAST_SECONDS))
        idle = meter.stop(1)
    count = values["count"]
    seconds = max(0.001, values["seconds"] - idle["seconds"])
    return {**values, "start_seconds": idle["seconds"], "seconds": seconds, "rate": count / seconds,
            **{key: values[key] - idle[key] / count for key in ("server_us", "worker_us")}}


def each(lab, systems, count):
    count = lab.options.messages or (2000 if lab.quick else count)
    for system in systems:
        size = system.size(count, 1 if lab.quick else 5)
        lab.take(system, "%d" % size, lambda: one(lab, system, size))


def bars(lab, systems, turn):
    each(lab, [system for system in systems if system.name in BARS], 200000)


def rest(lab, systems, turn):
    each(lab, [system for system in systems if system.name not in BARS], 50000 if lab.brief else 200000)
