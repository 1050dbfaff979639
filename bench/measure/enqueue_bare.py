"""What enqueue costs beside the least that a function can do: one that only inserts the row.

500 calls a statement, so that neither parsing nor the round trip counts; and one call a statement, prepared. Backend CPU."""
from harness.relay import cpu_of

NAME = "enqueue-bare"
TITLE = "enqueue beside a plpgsql function that only inserts the row, backend CPU"
BAR = 1.6
BARE = """
create function public.bare(topic text, payload jsonb) returns uuid language plpgsql as $$
declare
    v_now constant timestamptz := clock_timestamp();
    v_id constant uuid := outbox.uuid7(v_now);
begin
    insert into outbox.message (id, created_at, ord, pos, lane, bytes, shard, priority, namespace, topic, payload)
    values (v_id, v_now, pg_current_xact_id(), nextval('outbox.pos'), 1234567890123, 200, -1, 4, 'default', topic, payload);
    return v_id;
end
$$
"""
PAYLOAD = "jsonb_build_object('i', i, 'pad', repeat('x', 181 - length(i::text)))"
SIDES = {"bare": "public.bare('orders', %s)", "enqueue": "(outbox.enqueue('orders', %s)).id",
         "enqueue, key": "(outbox.enqueue('orders', %s, key => 'k' || mod(i, 1000))).id"}
CALLS = 500


def sample(bench, report, name, conn, many):
    if many:
        text, calls, times = "select count(%s) from generate_series(1, 500) i" % (SIDES[name] % PAYLOAD), CALLS, 40
    else:
        text, calls, times = "select %s from (select %%s::int as i) i" % (SIDES[name] % PAYLOAD), 1, 2000
    times = bench.size(times, times // 10)
    cpu = 0.0
    for turn in range(-times // 10, times):
        if turn == 0:
            cpu = cpu_of(conn.info.backend_pid)
        conn.execute(text, None if many else (turn + 1000,), prepare=True)
    report.sample("%s, %s" % (name, "500 a statement" if many else "one a statement"),
                  cpu_us=(cpu_of(conn.info.backend_pid) - cpu) / times / calls * 1e6)


def measure(bench, report):
    for _ in range(bench.times(5)):
        with bench.fresh() as database, bench.connect(database, "postgres") as conn:
            conn.execute(BARE)
            conn.execute("set synchronous_commit = off")  # waiting is not its cost
            for many in (True, False):
                for name in SIDES:
                    sample(bench, report, name, conn, many)
    rows = []
    for how in ("500 a statement", "one a statement"):
        bare = report.median("bare, " + how, "cpu_us")
        for name in SIDES:
            cpu = report.median("%s, %s" % (name, how), "cpu_us")
            rows.append(["%s, %s" % (name, how), cpu, cpu / bare])
    report.table(["", "backend CPU us", "/ bare"], rows)
    report.check("enqueue / a function that only inserts the row, by CPU", rows[1][2], BAR, at_most=True)
