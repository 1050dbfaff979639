"""A storm over the log of one PostgreSQL outbox: producers, takers of windows, workers that claim, and trouble.

Producers commit, roll back, use savepoints, run for seconds, prepare their transactions, take their transaction number long before
they use a key. Takers settle windows in pieces, with every outcome; they stall past their lease and go on, cut their connection
in the middle of a settle and repeat it, exit, are killed, stopped, terminated; half of them do not wait for their commits. Workers
claim, which admits messages of the log. A topic is paused and resumed, a namespace goes to and fro between log and queue, the
server is restarted as in a crash.

All of them write to one file: what was committed, and what was accepted, before it is settled. At the end, held against the tables:

    missing      a producer was told that it is committed, and it is not there
    lost         neither accepted nor dead
    unexpected   accepted, and rolled back or never sent
    reordered    of one key: first accepted after a later one was
    gaps         of one key: seq is not 1, 2, 3 ... without a hole
    early        accepted before it was due
    left         rows of the queue, open windows, shards with something to take
    unrecorded   delivered, and not on record as delivered exactly once
    errors       an error that nobody expects

All must be zero. Accepted twice is counted: at least once means that it may be.
"""
import collections
import json
import os
import random
import signal
import time
import uuid

import psycopg

LEASE = 1.5
KEYS = 16
TOPICS = ("t1", "t1", "t2")
NAMESPACES = ("default", "default", "across", "moving")  # across: keys have messages of both topics; moving: log, queue, log ...
EXPECTED = ("terminat", "clos", "connection", "starting up", "shutting down", "recovery mode", "deadlock detected", "lock timeout",
            "no connection", "server shutdown", "crash of another")


class Ledger:
    """One file for all processes. A line is one write, so their order in the file is the order in time."""

    def __init__(self, path):
        self.path = path
        self.fd = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o644)

    def write(self, *words):
        os.write(self.fd, (" ".join(map(str, words)) + "\n").encode())

    def accept(self, ident, stream, seq):
        self.write("A", ident, stream or "-", seq or 0, time.time())

    def error(self, who, error):
        text = str(error).replace("\n", " ")
        if not any(word in text for word in EXPECTED):
            self.write("E", who, text[:300])

    def lines(self):
        with open(self.path) as file:
            return [line.split() for line in file]


class Member:
    """A process of the storm, forked: many die."""

    def __init__(self, kind, number, storm):
        self.kind, self.number = kind, number
        seed = storm.random.random()
        self.pid = os.fork()
        if self.pid == 0:
            code = 1
            try:
                signal.signal(signal.SIGINT, signal.SIG_IGN)
                kind("%s-%d" % (kind.__name__.lower(), number), storm, random.Random(seed)).live()
                code = 0
            finally:
                os._exit(code)

    def signal(self, number):
        os.kill(self.pid, number)

    def ended(self):
        return os.waitpid(self.pid, os.WNOHANG)[0] == self.pid

    def end(self):
        self.signal(signal.SIGKILL)
        self.signal(signal.SIGCONT)
        os.waitpid(self.pid, 0)


class Actor:
    """What a process does: turns, through every loss of the connection, until the storm says stop."""
    stop = "stop"

    def __init__(self, name, storm, rand):
        self.name, self.storm, self.random, self.ledger = name, storm, rand, Ledger(storm.ledger.path)
        self.conn = None

    def live(self):
        while not self.storm.said(self.stop):
            try:
                if self.conn is None:
                    self.conn = psycopg.connect(self.storm.database.conninfo(), autocommit=True, connect_timeout=10,
                                                application_name=self.name)
                    self.begin()
                self.turn()
            except psycopg.Error as error:
                self.ledger.error(self.name, error)
                self.cut()
                time.sleep(0.05)

    def begin(self):
        pass

    def cut(self):
        if self.conn is not None:
            self.conn.close()
        self.conn = None

    def one(self, sql, *params):
        return self.conn.execute(sql, params).fetchone()

    def all(self, sql, *params):
        return self.conn.execute(sql, params).fetchall()

    def calm(self):
        return self.storm.said("calm")


class Producer(Actor):
    stop = "enough"

    def begin(self):
        self.conn.execute("set outbox.doorbell = off; set lock_timeout = '8s'")

    def message(self, key=None, **more):
        return {"topic": self.random.choice(TOPICS), "payload": {"by": self.name}, "max_attempts": 1000, "namespace": self.namespace,
                **({"key": "k%d" % key} if key is not None else {}), **more}

    def send(self, key=None, **more):
        message = self.message(key, **more)
        message["payload"] = json.dumps(message["payload"])
        row = self.one("select id from outbox.enqueue(%s)" % ", ".join("%s => %%s" % name for name in message), *message.values())
        return [str(row[0])]

    def send_many(self, messages):
        return [str(row[0]) for row in self.all("select id from outbox.enqueue_many(%s)", json.dumps(messages))]

    def keys(self, most):
        """Some are used far more than others."""
        return sorted({int(KEYS * self.random.random() ** 3) for _ in range(self.random.randint(0, most))})

    def turn(self):
        self.namespace = self.random.choice(NAMESPACES)
        self.conn.execute("begin")
        try:
            if self.random.random() < 0.5:  # a number long before a key: such a message is late
                self.one("select pg_current_xact_id()")
                time.sleep(self.random.random() * self.random.choice((0, 0.1, 0.3)))
            kind = self.random.choices((self.usual, self.savepoints, self.long, self.special, self.burst, self.prepare),
                                       (60, 15, 8, 9, 4, 4))[0]
            ids = kind()
            if ids is not None:
                if self.random.random() < 0.12:
                    self.conn.execute("rollback")
                    return
                self.conn.execute("commit")
                for ident in ids:
                    self.ledger.write("C", ident)
        except (psycopg.errors.DeadlockDetected, psycopg.errors.LockNotAvailable):
            self.conn.execute("rollback")
        time.sleep(self.random.random() * 0.05)

    def usual(self):
        ids = []
        keys = self.keys(4)
        for key in keys:
            ids += self.send(key)
        for _ in range(self.random.randint(0, 4)):
            ids += self.send()
        if keys and self.random.random() < 0.3:
            for _ in range(3):
                ids += self.send(keys[-1])
        if self.random.random() < 0.3:
            time.sleep(self.random.random() * 0.05)
        return ids

    def savepoints(self):
        first = self.random.randrange(KEYS - 5)
        ids = self.send(first) + self.send()
        for key in range(first + 1, first + 4):
            self.conn.execute("savepoint s")
            inside = self.send(key) + self.send() + self.send(key)
            if self.random.random() < 0.5:
                self.conn.execute("rollback to s")
            else:
                ids += inside
            if self.random.random() < 0.5:
                ids += self.send(key)
        return ids

    def long(self):
        ids = self.send() + self.send()
        time.sleep(self.random.uniform(0.5, 3))
        for key in self.keys(3):
            ids += self.send(key) + self.send(key)
        return ids + self.send()

    def special(self):
        """Delays and priorities; with a key they go to the log too."""
        key = self.random.randrange(KEYS)
        at = self.one("select (clock_timestamp() + %s * interval '1 s')::text", self.random.uniform(0.3, 2))[0]
        if self.random.random() < 0.5:
            return self.send(key, deliver_after=at) + self.send(key) + self.send(None, deliver_after=at) + self.send(None, priority=9)
        return self.send(key, priority=9) + self.send(key, priority=1) + self.send(key)

    def burst(self):
        key = self.random.randrange(KEYS)
        return self.send_many([self.message(key if self.random.random() < 0.5 else None) for _ in range(self.random.randint(20, 200))])

    def prepare(self):
        gid = "%s-%s" % (self.name, uuid.uuid4())  # one may be left of before a crash
        ids = []
        for key in self.keys(2):
            ids += self.send(key)
        ids += self.send() + self.send()
        self.conn.execute("prepare transaction '%s'" % gid)
        time.sleep(self.random.uniform(0.1, 2))
        if self.random.random() < 0.25:
            self.conn.execute("rollback prepared '%s'" % gid)
        else:
            self.conn.execute("commit prepared '%s'" % gid)
            for ident in ids:
                self.ledger.write("C", ident)


class Window:
    """A window that is held: what is to be told of it, and what is not decided yet."""

    def __init__(self, shard, ident, nonce, rows):
        self.shard, self.ident, self.nonce, self.rows = shard, ident, nonce, rows
        self.until = time.monotonic() + LEASE
        self.waiting = {}  # id -> (stream, seq): under way
        self.told = []     # (id, outcome, delay): for the next settle
        self.stopped = set()


class Taker(Actor):
    def begin(self):
        if self.random.random() < 0.5:
            self.conn.execute("set synchronous_commit = off")
        self.leased = []  # (when, id, stream, seq): rows of the queue that came out of our windows

    def turn(self):
        self.settle_leased()
        nonce = self.random.getrandbits(61) + 1
        skip = (["across"], ["t2"]) if self.random.random() < 0.05 and not self.calm() else (None, None)
        shard, ident, size, more, busy, queued = self.one(
            "select shard, id, size, more, busy, queued from outbox.take(%s, %s, make_interval(secs => %s), %s, %s, %s, %s, %s::text[], %s::text[])", self.name,
            self.random.choice((1, 2, 5, 20, 100, 500)), LEASE, nonce, self.random.choice((None, None, self.random.randint(-1, 7))),
            self.random.choice((None, None, 2000)), self.random.choice((1, 16, 500)), *skip)
        if size == 0:
            time.sleep(0.02)
            return
        time.sleep(self.random.choice((0, 0, 0, 0.01, 0.1)))
        rows = self.all("select id, stream, seq from outbox.window_messages where nonce = %s", nonce)
        if not rows:
            self.ledger.write("N", "repaired", 1)
        elif len(rows) != size:
            self.ledger.write("E", self.name, "window of %d has %d messages" % (size, len(rows)))
        else:
            self.work(Window(shard, ident, nonce, rows))

    def work(self, window):
        calm, rand = self.calm(), self.random
        bad = 0 if calm else rand.choice((0, 0, 0.02, 0.3))
        mood = 1 if calm else rand.random()
        trouble = rand.randrange(len(window.rows))
        piece = rand.choice((1, 3, 50, 500))
        for number, (ident, stream, seq) in enumerate(window.rows):
            if number == trouble and mood < 0.06:
                time.sleep(rand.uniform(0.5, LEASE * 2.5))
            elif number == trouble and mood < 0.08:
                os._exit(9)
            self.decide(window, ident, stream, seq, bad)
            if len(window.told) >= piece and not self.tell(window):
                return
        if window.waiting and rand.random() < 0.5:
            time.sleep(rand.random() * 0.2)
            for ident, (stream, seq) in window.waiting.items():
                self.ledger.accept(ident, stream, seq)
                window.told.append((ident, 1, None))
            window.waiting = {}
        self.tell(window, True)

    def decide(self, window, ident, stream, seq, bad):
        rand = self.random
        if stream is not None and stream in window.stopped:
            window.told.append((ident, rand.choice((8, 8, 9)), None))
            return
        if rand.random() >= bad:
            self.ledger.accept(ident, stream, seq)
            window.told.append((ident, 1, None))
            return
        if stream is not None:
            window.stopped.add(stream)
        outcome = rand.choices((2, 3, 5, 7, 8, None), (40, 5, 10, 10, 5, 30))[0]
        if outcome == 7:
            self.ledger.accept(ident, stream, seq)
        if outcome is None:
            window.waiting[ident] = (stream, seq)
        else:
            window.told.append((ident, outcome, rand.randrange(400000) if outcome in (2, 5, 7) else None))

    def tell(self, window, last=False):
        """Settles what is decided. With a message of a key that goes to the queue, those before it go too. False: it is not ours."""
        places = {row[0]: row[1:] for row in window.rows}
        going = {}
        for ident, outcome, _ in window.told:
            if outcome != 1 and places[ident][0] is not None:
                going[places[ident][0]] = max(going.get(places[ident][0], 0), places[ident][1])
        given = [i for i, (stream, seq) in window.waiting.items() if last or seq is not None and seq < going.get(stream, 0)]
        items = window.told + [(ident, None, None) for ident in given]
        if not items:
            return True
        if self.random.random() < 0.3:
            time.sleep(self.random.random() * 0.05)
        lost = self.settle_window(window, items)
        self.ledger.write("N", "window-lost" if lost else "window-ok", 1)
        for ident in given:
            stream, seq = window.waiting.pop(ident)
            if not lost:
                self.leased.append((time.monotonic() + self.random.choice((0.05, 0.5, 1.0, 2.5)), ident, stream, seq))
        window.told = []
        return not lost

    def settle_window(self, window, items):
        """One call; now and then the connection is cut in the middle of it, and the call repeated."""
        sql = ("select count(*) from outbox.settle_window(array[{}::int], array[{}::bigint], array[{}::bigint], array[0], {}::int[], "
               "{}::uuid[], {}::int[], delays => {}::bigint[], worker => {}, lease => make_interval(secs => {}), again => {}) "
               "where result = 'lost'")
        params = [window.shard, window.ident, window.nonce, [1] * len(items), [item[0] for item in items], [item[1] for item in items],
                  [item[2] for item in items], self.random.choice((None, self.name)), LEASE]
        again = False
        if self.random.random() < 0.05 and not self.calm():
            self.send_and_cut(sql.format(*("$%d" % n for n in range(1, 11))), params + [False])
            again = True
            self.conn = psycopg.connect(self.storm.database.conninfo(), autocommit=True, application_name=self.name)
            self.ledger.write("N", "repeated", 1)
        return self.one(sql.format(*["%s"] * 10), *params, again)[0] > 0

    def send_and_cut(self, sql, params):
        def text(value):
            if isinstance(value, list):
                return ("{%s}" % ",".join("null" if v is None else str(v) for v in value)).encode()
            return None if value is None else str(value).encode()
        pg = self.conn.pgconn
        pg.send_query_params(sql.encode(), [text(value) for value in params])
        while pg.flush():
            pass
        time.sleep(self.random.choice((0, 0.001, 0.01, 0.05)))
        self.conn.close()

    def settle_leased(self):
        now = time.monotonic()
        due = [row for row in self.leased if row[0] <= now]
        self.leased = [row for row in self.leased if row[0] > now]
        for _, ident, stream, seq in due:
            self.ledger.accept(ident, stream, seq)
            result, = self.one("select result from outbox.settle(array[%s::uuid], array[1::bigint], array[1])", ident)
            self.ledger.write("N", "under-way-" + result, 1)


class Worker(Actor):
    """Claims rows of the queue, for which the log's messages are admitted."""

    def turn(self):
        rand, calm = self.random, self.calm()
        rows = self.all("select id, token, stream, seq from outbox.claim(%s, %s, make_interval(secs => %s), run => %s, admit => %s)", self.name,
                        rand.choice((1, 10, 50)), LEASE, rand.choice((1, 10)), calm or rand.random() < 0.03)
        if not rows:
            time.sleep(0.02)
            return
        mood = 1 if calm else rand.random()
        if mood < 0.02:
            os._exit(9)
        if mood < 0.05:
            time.sleep(rand.uniform(0.5, LEASE * 2))
        bad = 0 if calm else rand.choice((0, 0.05, 0.2))
        outcomes, stopped = [], set()
        for ident, token, stream, seq in rows:
            if stream is not None and stream in stopped:
                outcomes.append(8)
            elif rand.random() < bad:
                outcomes.append(2)
                stopped.add(stream)
            else:
                self.ledger.accept(ident, stream, seq)
                outcomes.append(1)
        for result, count in self.all(
                "select result, count(*) from outbox.settle(%s::uuid[], %s::bigint[], %s::int[], delays => %s::bigint[]) group by 1",
                [row[0] for row in rows], [row[1] for row in rows], outcomes, [rand.randrange(300000) for _ in rows]):
            self.ledger.write("N", "row-" + result, count)


class Storm:
    def __init__(self, server, database, folder, producers=5, takers=4, workers=3, seed=1):
        self.server, self.database, self.folder = server, database, folder
        self.random = random.Random(seed)
        self.ledger = Ledger(os.path.join(folder, "ledger"))
        self.kinds = [Producer] * producers + [Taker] * takers + [Worker] * workers
        self.members, self.stopped, self.counts, self.paused = [], {}, collections.Counter(), False
        self.count = 0

    def say(self, word):
        open(os.path.join(self.folder, word), "w").close()

    def said(self, word):
        return os.path.exists(os.path.join(self.folder, word))

    def start(self, kind):
        self.count += 1
        self.members.append(Member(kind, self.count, self))

    def begin(self):
        self.database.sql("select outbox.configure('*', 'lane', 'log'), outbox.configure('across', 'order_scope', 'namespace')")
        for kind in self.kinds:
            self.start(kind)
        return self

    def run(self, seconds, restarts=0, trouble=1.0):
        """Trouble for so long, with so many restarts of the server."""
        self.begin()
        began = time.monotonic()
        crashes = sorted(self.random.uniform(0.2, 0.9) * seconds for _ in range(restarts))
        while time.monotonic() < began + seconds:
            time.sleep(0.1)
            self.go_on()
            if crashes and time.monotonic() > began + crashes[0]:
                crashes.pop(0)
                self.server.restart("immediate")
                self.counts["restarts"] += 1
            elif self.random.random() < trouble * 0.15:
                try:
                    self.random.choices((self.kill, self.halt, self.terminate, self.pause, self.move), (30, 20, 30, 15, 15))[0]()
                except psycopg.Error as error:
                    self.ledger.error("storm", error)
        return self

    def go_on(self):
        """Starts again what has died, and wakes what was stopped for long enough."""
        for member in list(self.members):
            if member.ended():
                self.members.remove(member)
                self.stopped.pop(member, None)
                if not self.said(member.kind.stop):
                    self.start(member.kind)
        for member, until in list(self.stopped.items()):
            if time.monotonic() > until:
                member.signal(signal.SIGCONT)
                del self.stopped[member]

    def victim(self):
        return self.random.choice([m for m in self.members if m not in self.stopped])

    def kill(self):
        self.victim().signal(signal.SIGKILL)
        self.counts["killed"] += 1

    def halt(self):
        member = self.random.choice([m for m in self.members if m.kind is not Producer])
        member.signal(signal.SIGSTOP)
        self.stopped[member] = time.monotonic() + self.random.uniform(0.5, 2.5 * LEASE)
        self.counts["stopped"] += 1

    def terminate(self):
        self.counts["terminated"] += len(self.database.sql(
            "select pg_terminate_backend(pid) from (select pid from pg_stat_activity where datname = current_database() "
            "and application_name ~ '^(producer|taker|worker)-' order by random() limit 2) x"))

    def pause(self):
        self.paused = not self.paused
        for namespace in set(NAMESPACES):
            self.database.sql("select outbox.%s(%%s, 't2')" % ("pause" if self.paused else "resume"), namespace)
        self.counts["paused"] += self.paused

    def move(self):
        self.database.sql("select outbox.configure('moving', 'lane', %s)", self.random.choice((None, "log", "queue", "queue")))
        self.counts["moved"] += 1

    def end(self, limit=120):
        """Producers stop; all that is left is delivered by workers that have no bad luck any more."""
        for member in self.stopped:
            member.signal(signal.SIGCONT)
        self.stopped = {}
        self.say("enough")
        self.say("calm")
        if self.paused:
            self.pause()
        until = time.monotonic() + limit
        while time.monotonic() < until and any(m.kind is Producer for m in self.members):
            self.go_on()
            time.sleep(0.05)
        self.finish_prepared("commit")
        while time.monotonic() < until and any(self.left()):
            self.go_on()
            time.sleep(0.2)
        self.say("stop")
        while time.monotonic() < until and self.members:
            self.go_on()
            time.sleep(0.05)
        return self

    def close(self):
        for member in self.members:
            member.end()
        self.members = []
        self.finish_prepared("rollback")

    def finish_prepared(self, word):
        for gid, in self.database.sql("select gid from pg_prepared_xacts where database = current_database()"):
            self.database.sql("%s prepared '%s'" % (word, gid))

    def left(self):
        return self.database.sql("select (select count(*) from outbox.queue), (select count(*) from outbox.log_window where open), "
                                 "coalesce(cardinality((outbox.look(0)).ready), 0)")[0]

    def check(self):
        """The ledger against the tables; all of VERDICT must be 0."""
        there = {str(row[0]): row[1:] for row in self.database.sql("select id, sid, seq from outbox.message")}
        due = {str(row[0]): float(row[1]) for row in self.database.sql("select id, extract(epoch from due) from outbox.message where due is not null")}
        dead = {str(row[0]) for row in self.database.sql("select id from outbox.dead")}
        accepted, first, committed, counts, errors = collections.Counter(), collections.defaultdict(list), set(), collections.Counter(), []
        early = 0
        for kind, *words in self.ledger.lines():
            if kind == "A":
                accepted[words[0]] += 1
                early += float(words[3]) < due.get(words[0], 0)
                if accepted[words[0]] == 1 and words[1] != "-":
                    first[int(words[1])].append(int(words[2]))
            elif kind == "C":
                committed.add(words[0])
            elif kind == "N":
                counts[words[0]] += int(words[1])
            else:
                errors.append(" ".join(words))
        keys = collections.defaultdict(list)
        for sid, seq in there.values():
            if sid is not None:
                keys[sid].append(seq)
        late, = self.database.sql("select count(*) from outbox.message where xid is not null")[0]
        unrecorded, = self.database.sql("select count(*) from (select from outbox.message m left join outbox.attempt_stored a on a.message_id = m.id "
                                        "and a.outcome = 1 where not exists (select from outbox.dead d where d.id = m.id) "
                                        "group by m.id having count(a.message_id) <> 1) x")[0]
        return {"messages": len(there), "late": late, "keys": len(keys), "dead": len(dead),
                "twice": sum(count - 1 for count in accepted.values()), **self.counts, **counts,
                "missing": sum(ident not in there for ident in committed),
                "lost": sum(ident not in accepted and ident not in dead for ident in there),
                "unexpected": sum(ident not in there for ident in accepted),
                "reordered": sum(a > b for seqs in first.values() for a, b in zip(seqs, seqs[1:])),
                "gaps": sum(sorted(seqs) != list(range(1, len(seqs) + 1)) for seqs in keys.values()),
                "early": early, "left": sum(self.left()), "unrecorded": unrecorded, "errors": len(errors), "said": errors[:5]}


VERDICT = ("missing", "lost", "unexpected", "reordered", "gaps", "early", "left", "unrecorded", "errors")


def clean(found):
    return all(found[name] == 0 for name in VERDICT)
