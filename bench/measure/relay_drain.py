"""`outbox run --until-empty` into the sink that takes everything, beside the store's own take and settle."""
from harness import drain, fill
from harness.relay import Relay

NAME = "relay-drain"
TITLE = "outbox run --until-empty with the null sink, beside the store's own take + settle"
BAR, MEMORY_BAR_MB, GROWTH_BAR = 0.7, 64, 1.1
RUN = 16     # of a key at once, as a relay claims unless told otherwise
WARM = 1000  # that the store's side takes before its clock starts

VARIANTS = [("no keys", {}, {}), ("1000 keys", {"keys": 1000}, {"run": RUN})]


def store(bench, report, label, filled, count, options):
    with bench.fresh(filled) as database:
        drain.keep(report, label, bench.pg_bench("drain", database, side="log", count=count - WARM, **options))


def relayed(bench, report, label, filled, count):
    with bench.fresh(filled) as database:
        with Relay(bench, database, {"out": {"kind": "null"}}, until_empty=True) as relay:
            relay.wait()
        relay.check_delivered(count)
    report.sample(label, rate=count / relay.seconds, seconds=relay.seconds, count=count,
                  cpu_us=relay.backend_seconds / count * 1e6, relay_us=relay.cpu_seconds / count * 1e6,
                  peak_mb=relay.peak_kb / 1024, resident_mb=relay.resident_kb / 1024)


def both(bench, report, filled, count, label, options):
    for _ in range(bench.times(2)):
        store(bench, report, "store, " + label, filled, count, options)
        relayed(bench, report, "relay, " + label, filled, count)


def measure(bench, report):
    few, count, many = bench.size((100000, 500000, 1000000), (5000, 20000, 40000))
    for label, filling, options in VARIANTS:
        keyed, there = bool(filling), 0
        with bench.fresh() as filled:  # filled further and further: to fill takes longer than to drain
            for size in [count] if keyed else [few, count, many]:
                fill.ours(bench, filled, size - there, after=there, **filling)
                there = size
                bench.settle_down(filled)
                if size == count:
                    both(bench, report, filled, count, label, options)
                else:
                    relayed(bench, report, "relay, %d" % size, filled, size)

    rows = []
    for label in [side + row[0] for row in VARIANTS for side in ("store, ", "relay, ")]:
        of_relay = label.startswith("relay")
        rows.append([label] + [report.median(label, field) for field in ("rate", "cpu_us")] +
                    [report.median(label, field) if of_relay else None for field in ("relay_us", "peak_mb")])
    print("  %d messages of 200 bytes; CPU in us per message" % count)
    report.table(["", "msg/s", "backend CPU", "relay CPU", "peak MB"], rows)
    for label, _, _ in VARIANTS:
        ours, beside = "relay, " + label, "store, " + label
        report.check("relay / store, %s" % label, report.median(ours, "rate") / report.median(beside, "rate"), BAR,
                     cpu=report.median(beside, "cpu_us") / report.median(ours, "cpu_us"))
    peaks = [report.median("relay, %d" % size, "peak_mb") for size in (few, many)]
    report.check("peak memory in MB with %d waiting" % many, peaks[1], MEMORY_BAR_MB, at_most=True)
    report.check("the same / with %d waiting" % few, peaks[1] / peaks[0], GROWTH_BAR, at_most=True)
