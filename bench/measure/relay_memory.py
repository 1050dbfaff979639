"""The relay's largest memory: with many small messages waiting, and with large payloads."""
from harness import drain
from harness.relay import Relay

NAME = "relay-memory"
TITLE = "peak memory of outbox run: a long backlog, payloads of up to a megabyte"
BAR_MB = 64
# Text that does not compress, so that it is as large on its way as it is here. 31 digits and a blank: 32 bytes a word.
LARGE = """
select count(outbox.enqueue('orders', jsonb_build_object('i', i, 'pad', (
           select string_agg(md5(i::text || word::text), '') from generate_series(1, %(bytes)s / 32) word))))
  from generate_series(1, %(count)s) i
"""
SINKS = [("null", {"kind": "null"}), ("file", {"kind": "file", "path": "/dev/null"})]


def large(bench, count, size):
    def make(database):
        with bench.connect(database) as conn:
            for _ in range(10):
                conn.execute(LARGE, {"count": count // 10, "bytes": size})
        bench.settle_down(database)
    return bench.stock(("large", count, size), make)


def relayed(bench, report, label, source, count, sink):
    with bench.fresh(source) as database:
        with Relay(bench, database, {"out": sink}, until_empty=True) as relay:
            relay.wait()
        relay.check_delivered(count)
    report.sample(label, rate=count / relay.seconds, relay_us=relay.cpu_seconds / count * 1e6, peak_mb=relay.peak_kb / 1024)


def measure(bench, report):
    many = bench.size(1000000, 20000, brief=200000)  # of a million see also "backlog" of bench/run-peers
    cases = [("%d of 200 bytes" % many, drain.filled(bench, many, {}, "log"), many)]
    for count, size in bench.size([(10000, 32 << 10), (1000, 1000000)], [(100, 32 << 10), (30, 1000000)],
                                  brief=[(2000, 32 << 10), (300, 1000000)]):
        cases.append(("%d of %s" % (count, "a megabyte" if size == 1000000 else "32 KiB"), large(bench, count, size), count))
    for _ in range(bench.times(3)):
        for label, source, count in cases:
            for name, sink in SINKS:
                relayed(bench, report, "%s, %s" % (label, name), source, count, sink)
    labels = ["%s, %s" % (case[0], name) for case in cases for name, _ in SINKS]
    report.table(["", "msg/s", "relay CPU us", "peak MB"],
                 [[label] + [report.median(label, field) for field in ("rate", "relay_us", "peak_mb")] for label in labels])
    report.check("peak memory in MB, the largest of all", max(max(report.values(label, "peak_mb")) for label in labels),
                 BAR_MB, at_most=True)
