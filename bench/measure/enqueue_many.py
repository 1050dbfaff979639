"""Many messages in one call, beside a plain insert of as many rows."""
from harness import fill

NAME = "enqueue-many"
TITLE = "messages a second through enqueue_many, 1000 a call, beside a plain bulk insert"


def measure(bench, report):
    count = bench.size(200000, 10000)
    variants = [("plain insert, two indexes", {"side": "floor"}), ("enqueue_many, no keys", {}),
                ("enqueue_many, 1000 keys", {"keys": 1000})]
    for _ in range(bench.rounds):
        for label, options in variants:
            with bench.fresh() as database:
                fill.floor_table(bench, database)
                got = bench.pg_bench("enqueue-many", database, count=count, batch=1000, **options)
            report.sample(label, rate=got["count"] / got["seconds"], cpu_us=got["cpu_seconds"] / got["count"] * 1e6)
    floor, floor_cpu = report.median(variants[0][0], "rate"), report.median(variants[0][0], "cpu_us")
    print("  %d messages of 200 bytes, one connection, medians of %d" % (count, bench.rounds))
    rows = []
    for label, _ in variants:
        rate, cpu = report.median(label, "rate"), report.median(label, "cpu_us")
        rows.append([label, rate, rate / floor, cpu, floor_cpu / cpu])
    report.table(["", "msg/s", "/ plain", "backend CPU us", "plain / CPU"], rows)
