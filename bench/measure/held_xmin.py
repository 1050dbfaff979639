"""A drain while somebody's long transaction keeps the dead from being cleaned up."""
import statistics

from harness import drain

NAME = "held-xmin"
TITLE = "drain beside an open REPEATABLE READ transaction: last quarter against first"
BAR = 1.3  # of the log, by CPU
BATCH = 50

VARIANTS = [("log, no keys", {}, {}), ("log, 1000 keys", {"keys": 1000}, {"run": 500}), ("queue, no keys", {}, {})]


def names(bench):
    """(name, held), of a variant"""
    return [(", held", True)] if bench.brief else [(", free", False), (", held", True)]


def variants(bench):
    return VARIANTS[:2] if bench.brief else VARIANTS


def measure(bench, report):
    count = bench.size(400000, 20000, brief=100000)
    for _ in range(bench.times(3)):
        for label, filling, options in variants(bench):
            for name, held in names(bench):
                sample = drain.side(bench, report, label + name, count, filling, lane=label.split(",")[0], held=held, parts=4,
                                    batch=BATCH, **options)
                first, last = sample["parts"][0], sample["parts"][-1]
                sample["wall_ratio"] = (last["seconds"] / last["count"]) / (first["seconds"] / first["count"])
                sample["cpu_ratio"] = (last["cpu_seconds"] / last["count"]) / (first["cpu_seconds"] / first["count"])

    print("  %d messages, batches of %d; msg/s in each quarter, medians of %d" % (count, BATCH, bench.times(3)))
    rows = []
    for label, _, _ in variants(bench):
        for name in (label + name for name, _ in names(bench)):
            quarters = zip(*[[part["count"] / part["seconds"] for part in parts]
                             for parts in report.values(name, "parts")])
            rows.append([name] + [statistics.median(quarter) for quarter in quarters] +
                        [report.median(name, "wall_ratio"), report.median(name, "cpu_ratio")])
    report.table(["", "1st", "2nd", "3rd", "4th", "last / first, time", "by CPU"], rows)
    for row in rows:
        if row[0].startswith("log") and row[0].endswith("held"):
            report.check("held xmin, %s, last quarter / first, by CPU" % row[0], row[-1], BAR, at_most=True)
