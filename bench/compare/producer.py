"""What a producer pays: a business transaction alone, with a plain insert into an outbox table, and with each system."""
from compare import load
from compare.lab import Meter
from compare.system import Floor, System

NAME, TITLE = "producer", "what the producer pays, beside the business transaction alone"
CLIENTS = [1, 8, 32]


class Alone(System):
    name = family = "alone"
    label, set_up = "business transaction alone", "one insert"


class Plain(Floor):
    """The textbook outbox: a table with a primary key, nothing reads it."""
    name, family = "plain", "plain"
    label, set_up = "+ plain outbox-table insert", "id, topic, key, payload, created_at; primary key only"
    enqueue = "insert into plain (topic, key, payload) values ('orders', $3, $2::jsonb)"

    def prepare(self, lab, place, conn):
        conn.execute("create table plain (id bigint generated always as identity primary key, topic text not null,"
                     " key text, payload jsonb not null, created_at timestamptz not null default now())")


def one(lab, system, clients, seconds, awake=False):
    with lab.fresh(system) as place:
        worker = system.worker(lab, place) if awake else None
        try:
            if worker:
                worker.start()
                worker.ready()
                worker.go()
            warm = load.command(lab, system, place, enqueue=bool(system.enqueue), count=10 * clients, clients=clients)
            load.produce(warm)
            meter = Meter(place).start()
            made = load.produce(load.command(lab, system, place, enqueue=bool(system.enqueue), seconds=seconds,
                                             clients=clients, first=100000))
            cost = meter.stop(made["produced"])
        finally:
            if worker:
                worker.stop()
    return {"clients": clients, "awake": awake, "tps": made["produced"] / made["seconds"],
            "server_us": cost["server_us"], "wal": cost["wal"]}


def sides(systems):
    """(system, awake): without a worker; Outbox and the floor also with theirs, which then shares the cores."""
    found = [(Alone(), False), (Plain(), False)]
    return found + [(system, awake) for system in unique(systems) for awake in
                    ((False, True) if system.ours or system.name == "floor" else (False,))]


def each(lab, chosen, crowds, brief=2.0):
    seconds = lab.options.seconds or (0.5 if lab.quick else brief if lab.brief else 8.0)
    lab.results["sizes"] = {"seconds": seconds, "clients": clients_of(lab)}
    for clients in crowds:
        for system, awake in chosen:
            lab.take(system, "%d client%s%s" % (clients, "s" if clients > 1 else "", ", awake" if awake else ""),
                     lambda: one(lab, system, clients, seconds, awake))


def clients_of(lab):
    return [int(word) for word in lab.options.clients.split(",") if word] or CLIENTS


def needed(side):
    """The workers of Outbox and of the floor are awake in the bars."""
    return side[0].name in ("alone", "plain") or side[1]


def bars(lab, systems, turn):
    each(lab, [side for side in sides(systems) if needed(side)], [one for one in clients_of(lab) if one == 8])


def rest(lab, systems, turn):
    for clients in sorted(clients_of(lab), key=lambda one: one != 8):
        each(lab, [side for side in sides(systems) if clients != 8 or not needed(side)], [clients], 1.2)


def unique(systems):
    """One of those that share a way in: reading with pgmq in three ways is one way to send."""
    found = {}
    for system in systems:
        if system.enqueue:
            found.setdefault((system.family, system.enqueue), system)
    return list(found.values())
