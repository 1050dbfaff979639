"""What the database pays over a message's life: enqueued one a transaction, delivered, vacuumed; and what stays on disk."""
from compare import load
from compare.drain import drain
from compare.lab import Meter

NAME, TITLE = "life", "what the database pays over a message's life"
SIZES = """
select sum(pg_table_size(c.oid))::float8, sum(pg_indexes_size(c.oid))::float8
  from pg_class c join pg_namespace n on n.oid = c.relnamespace
 where c.relkind = 'r' and n.nspname not in ('pg_catalog', 'information_schema', 'pg_toast') and c.relname <> 'orders'
"""


def sizes(place):
    with place.connect() as conn:
        return conn.execute(SIZES).fetchone()


def one(lab, system, count, business):
    """business: server CPU and WAL of the transaction without a message, which are taken off."""
    with lab.fresh(system) as place:
        empty = sizes(place)
        meter = Meter(place).start()
        made = load.produce(load.command(lab, system, place, count=count, clients=8))
        enqueue = meter.stop(made["produced"])
        full = sizes(place)
        system.ready_to_drain(place)
        deliver = drain(lab, system, place, count)
        meter = Meter(place).start()
        with place.connect() as conn:
            conn.execute("vacuum")
        vacuum = meter.stop(count)
        after = sizes(place)
    values = {"count": count, "enqueue_us": enqueue["server_us"] - business["server_us"],
              "enqueue_wal": enqueue["wal"] - business["wal"], "deliver_us": deliver["server_us"],
              "deliver_wal": deliver["wal"], "vacuum_us": vacuum["server_us"], "vacuum_wal": vacuum["wal"],
              "table_bytes": (after[0] - empty[0]) / count, "index_bytes": (after[1] - empty[1]) / count,
              "peak_table_bytes": (full[0] - empty[0]) / count, "peak_index_bytes": (full[1] - empty[1]) / count}
    values["server_us"] = values["enqueue_us"] + values["deliver_us"] + values["vacuum_us"]
    values["wal"] = values["enqueue_wal"] + values["deliver_wal"] + values["vacuum_wal"]
    return values


def alone(lab, system, count):
    """The business transaction, once a server: it is the same whose tables are beside it."""
    known = lab.memory.setdefault(NAME, {})
    if system.logical not in known:
        known[system.logical] = business(lab, system, count)
    return known[system.logical]


def business(lab, system, count):
    with lab.fresh(system) as place:
        meter = Meter(place).start()
        made = load.produce(load.command(lab, system, place, enqueue=False, count=count, clients=8))
        return meter.stop(made["produced"])


def each(lab, systems):
    count = lab.options.messages or (1000 if lab.quick else 3000 if lab.brief else 100000)
    lab.results["sizes"] = {"messages": count}
    for system in systems:
        size = system.size(count, 1 if lab.quick else 8)
        lab.take(system, "%d" % size, lambda: one(lab, system, size, alone(lab, system, min(count, 20000))))


def bars(lab, systems, turn):
    each(lab, [system for system in systems if system.ours])


def rest(lab, systems, turn):
    each(lab, [system for system in systems if not system.ours])
