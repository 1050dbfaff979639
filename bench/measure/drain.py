"""Claim + ack with the full attempt record, beside the least that any queue in a table can do."""
from harness import drain

NAME = "drain"
TITLE = "claim + ack with the full attempt record, beside lock-only select + delete"
BAR = 0.5

# label, filling, options. The first is the one with the bar.
VARIANTS = [
    ("no keys", {}, {}),
    ("1000 keys", {"keys": 1000}, {"run": 500}),
    ("10 hot keys", {"keys": 10}, {"run": 500}),
    ("3 priorities", {"priorities": True}, {}),
    ("1000 tenants", {"tenants": 1000}, {}),
    ("one transaction", {}, {"one_tx": True}),
]


def measure(bench, report):
    count = bench.size(200000, 10000)
    for _ in range(bench.rounds):
        drain.side(bench, report, "floor", count, floor=True)
        for label, filling, options in VARIANTS:
            drain.side(bench, report, label, count, filling, **options)
        drain.side(bench, report, "floor, one transaction", count, floor=True, one_tx=True)

    floor, floor_cpu = report.median("floor", "rate"), report.median("floor", "cpu_us")
    rows = []
    for label in ["floor", "floor, one transaction"] + [row[0] for row in VARIANTS]:
        rate, cpu = report.median(label, "rate"), report.median(label, "cpu_us")
        parts = [report.median(label, field) for field in ("claim_us", "settle_us", "claim_cpu_us", "settle_cpu_us")]
        rows.append([label, rate, rate / floor, cpu, floor_cpu / cpu] + parts)
    print("  %d messages of 200 bytes, batches of 500, one connection, medians of %d; us per message" %
          (count, bench.rounds))
    report.table(["", "msg/s", "/ floor", "backend CPU us", "floor / CPU", "claim us", "settle us", "claim CPU",
                  "settle CPU"], rows)
    ratio = {row[0]: (row[2], row[4]) for row in rows}
    for label, _, _ in VARIANTS[:1]:
        report.check("drain, %s / floor" % label, ratio[label][0], BAR, cpu=ratio[label][1])
