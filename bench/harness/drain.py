"""One drain on a fresh database: a copy of one that was filled, measured, dropped."""
from harness import fill


def side(bench, report, label, count, filling=None, lane="log", held=False, **options):
    """Drains count messages and keeps the sample under the label. lane: log, queue or floor. filling: arguments of
    fill.ours. held: while somebody else's transaction holds xmin. options: of pg_bench drain."""
    extra = 2 * options.get("batch", 500) * options.get("workers", 1)  # taken before the clock starts
    with bench.fresh(filled(bench, count + extra, filling or {}, lane)) as database:
        holder = hold_xmin(bench, database) if held else None
        got = bench.pg_bench("drain", database, side=lane, count=count, **options)
        if holder:
            holder.close()
    return keep(report, label, got)


def filled(bench, count, filling, lane):
    """The database that all samples of this kind are copied from."""
    def make(database):
        if lane == "floor":
            fill.floor(bench, database, count)
        else:
            if lane == "queue":
                fill.use_queue(bench, database)
            fill.ours(bench, database, count, **filling)
        bench.settle_down(database)
    return bench.stock((lane, count, *sorted(filling.items())), make)


def keep(report, label, got):
    """Rates, and microseconds per message: wall-clock and the backends' CPU."""
    each = {name: got[field] / got["count"] * 1e6 for name, field in (
        ("cpu_us", "cpu_seconds"), ("claim_us", "claim_seconds"), ("settle_us", "settle_seconds"),
        ("claim_cpu_us", "claim_cpu_seconds"), ("settle_cpu_us", "settle_cpu_seconds"))}
    return report.sample(label, rate=got["count"] / got["seconds"], **each, **got)


def hold_xmin(bench, database):
    """An open REPEATABLE READ transaction with a snapshot and an xid: what it holds, nothing can clean up."""
    holder = bench.connect(database)
    holder.execute("begin isolation level repeatable read")
    holder.execute("select txid_current(), count(*) from pg_class")
    return holder
