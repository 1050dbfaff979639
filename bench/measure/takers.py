"""What many processes that take small batches do to each other."""
from harness import drain

NAME = "takers"
TITLE = "1 to 16 processes that take at once, from the log and from the queue"
BAR = 0.9
BATCH = 100
TAKERS = [1, 2, 4, 8, 16]
VARIANTS = [("log, no keys", {}), ("log, 1000 keys", {"keys": 1000}), ("queue, no keys", {}),
            ("queue, 1000 keys", {"keys": 1000})]


def variants(bench):
    return VARIANTS[:2] if bench.brief else VARIANTS


def measure(bench, report):
    """All are copies of one database, with room for what the most takers take before their clock starts."""
    count = bench.size(200000, 10000, brief=50000)
    room = 2 * BATCH * max(TAKERS)
    for _ in range(bench.times(3)):
        for label, filling in variants(bench):
            for takers in TAKERS:
                name = "%s, %d takers" % (label, takers)
                source = drain.filled(bench, count + room, filling, label.split(",")[0])
                with bench.fresh(source) as database:
                    got = bench.pg_bench("drain", database, side=label.split(",")[0], count=count, workers=takers,
                                         batch=BATCH, run=BATCH)
                drain.keep(report, name, got)
    print("  %d messages, batches of %d" % (count, BATCH))
    for label, _ in variants(bench):
        rows = []
        for takers in TAKERS:
            name = "%s, %d takers" % (label, takers)
            rows.append([name, report.median(name, "rate"), report.median(name, "cpu_us"),
                         report.median(name, "empty") / report.median(name, "calls")])
        report.table(["", "msg/s", "backends' CPU us", "takes of nothing"], rows)
        best = max(row[1] for row in rows[:-1])
        if label.startswith("log"):
            report.check("16 takers / best of fewer, %s" % label, rows[-1][1] / best, BAR,
                         cpu=min(row[2] for row in rows[:-1]) / rows[-1][2])
