"""What enqueue costs beside the least that a function can do: one that only inserts the row. Backend CPU of a call: one a
transaction, 100 in a transaction, 500 in a statement."""

NAME = "enqueue-bare"
TITLE = "enqueue beside a plpgsql function that only inserts the row, backend CPU"
BAR = 1.6
WAYS = [("bare", "only the insert"), ("plain", "enqueue"), ("key", "enqueue, one of 1,000 keys"), ("dedupe", "enqueue, dedupe key"),
        ("bytes", "enqueue_bytes")]
PACES = ["transaction_us", "statement_us", "bulk_us"]
# As little as a function can do for the same row, with the rights that enqueue has.
BARE = """
create function bare(topic text, payload jsonb) returns outbox.receipt language plpgsql security definer as $$
declare
    v_now timestamptz := clock_timestamp();
    v_id uuid := outbox.uuid7(v_now);
begin
    insert into outbox.message (id, created_at, ord, pos, lane, bytes, shard, priority, namespace, topic, payload)
    values (v_id, v_now, pg_current_xact_id(), nextval('outbox.pos'), 1, 200, -1, 4, 'default', bare.topic, bare.payload);
    return row (v_id, true, null)::outbox.receipt;
end
$$;
grant create on schema public to outbox_api;
alter function bare owner to outbox_api;
"""


def measure(bench, report):
    for _ in range(bench.times(5)):
        with bench.fresh() as database:
            bench.server.psql(BARE, dbname=database)
            got = bench.pg_bench("enqueue-calls", database, rounds=bench.size(12, 3))
        for name, _ in WAYS:
            report.sample(name, **got[name])
    bare = {pace: report.median("bare", pace) for pace in PACES}
    report.table(["", "transaction, us", "/ bare", "statement, us", "/ bare", "bulk, us", "/ bare"],
                 [[label] + [value for pace in PACES for value in
                             (report.median(name, pace), report.median(name, pace) / bare[pace])] for name, label in WAYS])
    for pace in PACES:
        report.check("enqueue / a function that only inserts the row, by CPU, %s" % pace.split("_")[0],
                     report.median("plain", pace) / bare[pace], BAR, at_most=True)
