"""Messages stuck behind one failing key, and what they cost the others."""
import time

from harness import drain, fill

NAME = "blocked"
TITLE = "messages blocked behind one failing key: drain of the other keys with and without them"
BAR = 0.8
BATCH = 500

NACK_HEAD = """
select n.result
  from (select array_agg(c.id) as ids, array_agg(c.token) as tokens
          from outbox.claim(worker => 'bench', "limit" => 1) c) c,
       outbox.nack(c.ids, c.tokens, array['down'], null, array['1 day'::interval]) n
"""


def others(bench, report, database, label, count, keys):
    """Drains count of the others. A quarter more are there: what a claim does when nothing else is left is not this."""
    fill.ours(bench, database, count + count // 4 + 2 * BATCH, keys=keys)
    bench.settle_down(database)
    got = bench.pg_bench("drain", database, side="queue", count=count, batch=BATCH, run=500)
    sample = drain.keep(report, label, got)
    with bench.connect(database, "postgres") as conn:
        sample["parked"] = parked(conn)


def block(bench, database, count):
    """count messages of one key, older than all others, the first of them failed and due in a day."""
    fill.ours(bench, database, count, keys=1, prefix="stuck")
    with bench.connect(database) as conn:
        assert conn.execute(NACK_HEAD).fetchone() == ("ok",)


def park_the_rest(bench, report, database, count):
    """Drains the rest of the others, then claims until nothing more is parked."""
    with bench.connect(database, "postgres") as conn:
        start, before, after = time.monotonic(), parked(conn), -1
        while after != parked(conn):
            after = parked(conn)
            conn.execute("select count(*) from outbox.claim(worker => 'bench', \"limit\" => 500, run => 500) c, "
                         "outbox.ack(array[c.id], array[c.token])")
        seconds = time.monotonic() - start
        if after != count - 1:
            raise RuntimeError("%d of %d are parked" % (after, count - 1))
    report.sample("parking the rest", rows=after - before, seconds=seconds)


def parked(conn):
    return conn.execute("select count(*) from outbox.queue where parked").fetchone()[0]


def measure(bench, report):
    count = bench.size(100000, 10000)
    keys = 1000
    for _ in range(bench.rounds):
        with bench.fresh() as database:
            others(bench, report, database, "without", count, keys)
        with bench.fresh() as database:
            block(bench, database, count)
            others(bench, report, database, "while parking", count, keys)
            park_the_rest(bench, report, database, count)
            others(bench, report, database, "once parked", count, keys)

    print("  %d messages of 1000 keys drained, batches of %d, beside %d stuck behind one; medians of %d" %
          (count, BATCH, count, bench.rounds))
    base, base_cpu = report.median("without", "rate"), report.median("without", "cpu_us")
    rows = []
    for label in ("without", "while parking", "once parked"):
        rate, cpu = report.median(label, "rate"), report.median(label, "cpu_us")
        rows.append([label, rate, rate / base, cpu, base_cpu / cpu, report.median(label, "parked")])
    report.table(["", "msg/s", "/ without", "backend CPU us", "without / CPU", "parked at the end"], rows)
    rest, seconds = report.median("parking the rest", "rows"), report.median("parking the rest", "seconds")
    report.note("the other keys of the failing key's shard wait until it is parked: the last %d took %.1f s of claims" %
                (rest, seconds))
    for row in rows[1:]:
        report.check("blocked, %s / without" % row[0], row[2], BAR, cpu=row[4])
