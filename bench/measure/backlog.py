"""What a claim costs when much is waiting, and what many claimers do to each other."""
from harness import drain, fill

NAME = "backlog"
TITLE = "cost of a claim at a small and a large backlog; 1 to 16 claimers at once"
COST_BAR = 1.5
CROWD_BAR = 0.8
BATCH = 100
CLAIMERS = [1, 2, 4, 8, 16]


def cost(bench, report):
    small, large = bench.size(10000, 2000), bench.size(1000000, 50000)
    calls = bench.size(300, 40)
    for keys in (0, 1000):
        with bench.fresh() as few, bench.fresh() as many:
            fill.ours(bench, few, small, keys=keys)
            fill.ours(bench, many, large, keys=keys)
            bench.settle_down(few)
            bench.settle_down(many)
            for _ in range(bench.times(3)):
                for after in ("acked", "released"):
                    got = bench.pg_bench("claims", few, many, count=calls, batch=BATCH, ack=after == "acked")["places"]
                    for name, one in zip(("few", "many"), got):
                        report.sample("%d keys, %s, %s" % (keys, after, name), **one)

    print("  one claim of %d, in turn at %d and at %d waiting; us" % (BATCH, small, large))
    rows = [cost_row(report, label) for label in ("0 keys, acked", "0 keys, released", "1000 keys, acked",
                                                  "1000 keys, released")]
    report.table(["", "mean small", "large", "ratio", "median small", "large", "ratio", "CPU small", "large", "ratio",
                  "p99 large"], rows)
    for row in rows:
        report.check("claim at %d / at %d waiting, %s" % (large, small, row[0]), row[3], COST_BAR, cpu=row[9],
                     at_most=True)


def cost_row(report, label):
    row = [label]
    for field in ("mean_us", "median_us", "cpu_mean_us"):
        few, many = (report.median("%s, %s" % (label, name), field) for name in ("few", "many"))
        row += [few, many, many / few]
    return row + [report.median("%s, many" % label, "p99_us")]


def crowd(bench, report):
    count = bench.size(200000, 20000)
    for _ in range(bench.times(3)):
        for workers in CLAIMERS:
            for keys in (0, 1000):
                drain.side(bench, report, "%d claimers, %d keys" % (workers, keys), count, {"keys": keys},
                           workers=workers, batch=BATCH, run=BATCH)
    for keys in (0, 1000):
        rows = []
        for workers in CLAIMERS:
            label = "%d claimers, %d keys" % (workers, keys)
            rows.append([label, report.median(label, "rate"), report.median(label, "cpu_us"),
                         report.median(label, "empty") / report.median(label, "calls")])
        report.table(["", "msg/s", "backends' CPU us", "empty claims"], rows)
        best = max(row[1] for row in rows[:-1])
        report.check("16 claimers / best of fewer, %d keys" % keys, rows[-1][1] / best, CROWD_BAR,
                     cpu=min(row[2] for row in rows[:-1]) / rows[-1][2])


def measure(bench, report):
    cost(bench, report)
    crowd(bench, report)
