"""What a claim from the queue costs when much is waiting."""
from harness import fill

NAME = "backlog"
TITLE = "cost of a claim from the queue at a small and a large backlog"
COST_BAR = 1.5
BATCH = 100


def measure(bench, report):
    small, large = bench.size(10000, 2000), bench.size(1000000, 50000)
    calls = bench.size(300, 40)
    for keys in (0, 1000):
        with bench.fresh() as few, bench.fresh() as many:
            fill.use_queue(bench, few)
            fill.use_queue(bench, many)
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
