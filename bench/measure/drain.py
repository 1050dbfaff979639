"""Take + settle with the full attempt record, beside the least that any queue in a table can do."""
from harness import drain

NAME = "drain"
TITLE = "take + settle with the full attempt record, beside lock-only select + delete"

# label, filling, options, bar by backend CPU. The log is where messages are delivered from; the queue has what failed or waits.
VARIANTS = [
    ("log, no keys", {}, {}, 0.85),
    ("log, 1000 keys", {"keys": 1000}, {"run": 500}, 0.8),
    ("log, 10 hot keys", {"keys": 10}, {"run": 500}, None),
    ("log, 1000 tenants", {"tenants": 1000}, {}, None),
    ("queue, no keys", {}, {}, None),
    ("queue, 1000 keys", {"keys": 1000}, {"run": 500}, None),
    ("queue, 3 priorities", {"priorities": True}, {}, None),
    ("queue, one transaction", {}, {"one_tx": True}, None),
]


def measure(bench, report):
    count = bench.size(200000, 10000)
    for _ in range(bench.rounds):
        drain.side(bench, report, "floor", count, lane="floor")
        for label, filling, options, _ in VARIANTS:
            drain.side(bench, report, label, count, filling, lane=label.split(",")[0], **options)
        drain.side(bench, report, "floor, one transaction", count, lane="floor", one_tx=True)

    floor, floor_cpu = report.median("floor", "rate"), report.median("floor", "cpu_us")
    rows = []
    for label in ["floor", "floor, one transaction"] + [row[0] for row in VARIANTS]:
        rate, cpu = report.median(label, "rate"), report.median(label, "cpu_us")
        parts = [report.median(label, field) for field in ("claim_us", "settle_us", "claim_cpu_us", "settle_cpu_us")]
        rows.append([label, rate, rate / floor, cpu, floor_cpu / cpu] + parts)
    print("  %d messages of 200 bytes, batches of 500, one after the other, medians of %d; us per message" %
          (count, bench.rounds))
    report.table(["", "msg/s", "/ floor", "backend CPU us", "floor / CPU", "take us", "settle us", "take CPU",
                  "settle CPU"], rows)
    ratio = {row[0]: (row[2], row[4]) for row in rows}
    for label, _, _, bar in VARIANTS:
        if bar:
            report.check("drain, %s / floor, by CPU" % label, ratio[label][1], bar)
