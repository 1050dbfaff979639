"""A drain while somebody's long transaction keeps the dead from being cleaned up."""
import statistics

from harness import drain

NAME = "held-xmin"
TITLE = "drain beside an open REPEATABLE READ transaction: last quarter against first"
BAR = 0.8

VARIANTS = [("no keys", {}, {}), ("1000 keys", {"keys": 1000}, {"run": 500})]


def measure(bench, report):
    count = bench.size(400000, 20000)
    for _ in range(bench.times(3)):
        for label, filling, options in VARIANTS:
            for held in (False, True):
                name = label + (", held" if held else ", free")
                sample = drain.side(bench, report, name, count, filling, held=held, parts=4, **options)
                first, last = sample["parts"][0], sample["parts"][-1]
                sample["wall_ratio"] = (last["count"] / last["seconds"]) / (first["count"] / first["seconds"])
                sample["cpu_ratio"] = (first["cpu_seconds"] / first["count"]) / (last["cpu_seconds"] / last["count"])

    print("  %d messages, batches of 500; msg/s in each quarter, medians of %d" % (count, bench.times(3)))
    rows = []
    for label, _, _ in VARIANTS:
        for name in (label + ", free", label + ", held"):
            quarters = zip(*[[part["count"] / part["seconds"] for part in parts]
                             for parts in report.values(name, "parts")])
            rows.append([name] + [statistics.median(quarter) for quarter in quarters] +
                        [report.median(name, "wall_ratio"), report.median(name, "cpu_ratio")])
    report.table(["", "1st", "2nd", "3rd", "4th", "last / first", "by CPU"], rows)
    for row in rows:
        if row[0].endswith("held"):
            report.check("held xmin, %s, last quarter / first" % row[0].split(",")[0], row[-2], BAR, cpu=row[-1])
