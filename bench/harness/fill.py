"""Puts messages in, through the same door as everybody: enqueue_many. Payloads are JSON of 200 bytes."""

CALL = 1000  # messages a call

OURS = """
select count(*) from outbox.enqueue_many((
    select jsonb_agg(jsonb_strip_nulls(jsonb_build_object(
        'topic', 'orders',
        'payload', jsonb_build_object('i', i, 'pad', repeat('x', 181 - length(i::text))),
        'key', %(prefix)s || (i %% nullif(%(keys)s::int, 0)),
        'tenant_id', md5('tenant ' || i %% nullif(%(tenants)s::int, 0))::uuid,
        'priority', case when %(priorities)s then 2 + 2 * (i %% 3) end)) order by i)
      from generate_series(%(first)s::int, %(last)s::int) i))
"""

FLOOR_TABLE = """
create table floor (
    id           bigint generated always as identity primary key,
    topic        text not null,
    key          text,
    payload      jsonb not null,
    attempts     int not null default 0,
    available_at timestamptz not null default clock_timestamp(),
    created_at   timestamptz not null default now());
create index on floor (available_at, id);
"""

FLOOR = """
insert into floor (topic, payload)
select 'orders', jsonb_build_object('i', i, 'pad', repeat('x', 181 - length(i::text)))
  from generate_series(%(first)s::int, %(last)s::int) i
"""


def calls(conn, sql, count, after=0, call=CALL, **params):
    for first in range(after + 1, after + count + 1, call):
        conn.execute(sql, {"first": first, "last": min(first + call - 1, after + count), **params})


def ours(bench, database, count, keys=0, tenants=0, priorities=False, prefix="k", after=0):
    """count messages, the i-th of key i mod keys (0: no key), of tenant i mod tenants, in one or three priorities.
    after: so many are there already."""
    with bench.connect(database) as conn:
        calls(conn, OURS, count, after=after, keys=keys, tenants=tenants, priorities=priorities, prefix=prefix)


def use_queue(bench, database):
    """Messages wait in the queue from now on."""
    with bench.connect(database, "postgres") as conn:
        conn.execute("select outbox.configure('*', 'lane', 'queue')")


def floor_table(bench, database):
    with bench.connect(database) as conn:
        conn.execute(FLOOR_TABLE)


def floor(bench, database, count):
    floor_table(bench, database)
    with bench.connect(database) as conn:
        calls(conn, FLOOR, count)
