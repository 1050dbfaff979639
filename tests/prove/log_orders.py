"""Sessions of the log driven step by step, through all orders of their steps or a sample of them, each order checked.

A scenario has sessions; a session has transactions; a transaction has steps. Steps of a producer, several letters being one step:

    b begin   x take a transaction number   e enqueue with the key   n enqueue without one   c commit   r roll back

and of the others:

    t2   take a window of the key's shard, two messages at most; tn1: of the shard without keys; tz2: under a lease that ends at once
    o    settle all as delivered     p  only the first     f  the first is to be tried again, the rest is released
    i    the first is under way: it goes on as a row of the queue; the rest is released
    a    admit one message           k2 claim two rows, K2 with admission       s  settle what was claimed, or is under way

Checked after each order, when all that is left is delivered: every committed message is delivered, and no other; it is on record once;
none is delivered twice unless a lease ended; of two neighbours of a key, the settle of the first began before the second was
handed out; the queue is empty and no window open.
"""
import itertools
import math
import random
import time
import uuid

import psycopg

KEY = "k"

SCENARIOS = {
    # Two producers of a key, whose numbers are in either order; windows of one message.
    "X1": {"P1": ["bx e c"], "P2": ["bx e c"], "T1": ["t1", "o", "t1", "o"]},
    # No key: two producers, two takers.
    "X2": {"P1": ["bx n c"], "P2": ["bxn c"], "T1": ["tn1", "o"], "T2": ["tn1", "o"]},
    "A": {"P1": ["b x e e c"], "P2": ["b x e c"], "T1": ["b t1 c", "b o c"]},
    "A2": {"P1": ["bx e c"], "P2": ["bx e c"], "T1": ["t1", "o"], "T2": ["t1", "o"]},
    "B": {"P1": ["bx e c"], "P2": ["bx e c"], "T1": ["b t2 c", "b f c"], "R": ["k1", "s"]},      # fails, is claimed
    "C": {"P1": ["bxeec"], "T1": ["tz2", "b o c"], "T2": ["b t2 c", "o"], "R": ["b k2 c", "s"]},  # its lease ends
    "D": {"P1": ["bx n c"], "P2": ["bxn n c"], "T1": ["tn1", "o", "tn1", "o"], "T2": ["tn1", "o"]},
    "E": {"P1": ["bxe e c"], "P2": ["bx e c"], "T1": ["b t1 c", "b o c"], "A": ["b a c"], "R": ["k1", "s"]},
    "F": {"P1": ["bxe ee c"], "P2": ["bx e c"], "T1": ["b t2 c", "b i c", "s"], "T2": ["t2", "o"], "R": ["b k2 c", "s"]},
    "G": {"P1": ["bx e c"], "P2": ["bx e r"], "P3": ["bx e c"], "T1": ["t1", "o", "t1", "o"]},
    # A window that is settled in two pieces, beside a taker and one who claims and admits.
    "H": {"P1": ["bxe ee c"], "P2": ["bx e c"], "T1": ["b t2 c", "b p c", "b o c"], "T2": ["t2", "o"], "R": ["K2", "s"]},
    # A lease that ends in the middle.
    "I": {"P1": ["bxeeec"], "T1": ["tz2", "b p c", "o"], "T2": ["t2", "o"], "R": ["b K2 c", "s"]},
}


class Wait(Exception):
    """A step would wait for another session: its transaction is rolled back, and begins again a little later."""


class Hold:
    """Messages handed out together: rows of (id, token, what): seq, or the id where there is no key."""

    def __init__(self, rows, window=None, ended=False):
        self.rows, self.window, self.ended = rows, window, ended
        self.start = None
        self.delivered = {}  # what -> when the settle began


class Session:
    def __init__(self, name, database, run):
        self.name, self.run = name, run
        self.conn = psycopg.connect(database.conninfo(), autocommit=True)
        self.conn.execute("set lock_timeout = '15ms'; set synchronous_commit = off; set outbox.doorbell = off; set deadlock_timeout = '5ms'")
        self.reset()

    def reset(self):
        self.held, self.sent, self.then = [], [], []

    def query(self, sql, *params):
        try:
            cursor = self.conn.execute(sql, params)
        except (psycopg.errors.LockNotAvailable, psycopg.errors.DeadlockDetected):
            self.conn.execute("rollback")
            raise Wait
        return cursor.fetchall() if cursor.description else None

    def step(self, step):
        """What a transaction does to this session takes effect with its commit."""
        if step.strip("bxencr") == "":
            for letter in step:
                self.produce(letter)
        elif step[0] == "t":
            self.take(int(step.strip("tzn")), -1 if "n" in step else self.run.shard, "z" in step)
        elif step == "a":
            self.query("select outbox.admit(1)")
        elif step[0] in "kK":
            self.claim(int(step[1:]), step[0] == "K")
        else:
            self.settle(step)
        if not self.in_transaction():
            self.committed()

    def in_transaction(self):
        return self.conn.info.transaction_status != psycopg.pq.TransactionStatus.IDLE

    def committed(self):
        for effect in self.then:
            effect()
        self.then = []

    def produce(self, letter):
        if letter in "en":
            self.sent += [(row[0], row[1] or row[0]) for row in self.query(
                "select id, seq from outbox.enqueue('t', '1', key => %s, max_attempts => 100)", KEY if letter == "e" else None)]
        elif letter == "x":
            self.query("select pg_current_xact_id()")
        else:
            self.query({"b": "begin", "c": "commit", "r": "rollback"}[letter])
            if letter == "c":
                self.run.committed += self.sent
            if letter != "b":
                self.sent = []

    def hold(self, hold):
        def effect():
            hold.start = next(self.run.clock)
            self.held.append(hold)
            self.run.holds.append(hold)
        self.then.append(effect)

    def take(self, limit, shard, ends=False):
        nonce = random.SystemRandom().getrandbits(60) + 1  # never used before, whatever the seed
        (shard, ident, size), = self.query("select shard, id, size from outbox.take(%s, %s, '60 s', %s, %s)", self.name, limit, nonce, shard)
        if size == 0:
            return False
        rows = self.query("select id, 1, coalesce(seq::text, id::text) from outbox.window_messages where nonce = %s", nonce)
        assert len(rows) == size, "a window of %d has %d messages" % (size, len(rows))
        if ends:
            self.query("update outbox.log_window set until = clock_timestamp() where nonce = %s", nonce)
        self.hold(Hold([(i, t, int(w) if w.isdigit() else uuid.UUID(w)) for i, t, w in rows], (shard, ident, nonce), ends))
        return True

    def claim(self, limit, admit):
        rows = self.query("select id, token, coalesce(seq::text, id::text) from outbox.claim(%s, %s, '60 s', run => 10, admit => %s)",
                          self.name, limit, admit)
        if rows:
            self.hold(Hold([(i, t, int(w) if w.isdigit() else uuid.UUID(w)) for i, t, w in rows]))
        return bool(rows)

    def settle(self, step):
        held = [hold for hold in self.held if (hold.window is None) == (step == "s")]
        if not held:
            return
        hold, at = held[0], next(self.run.clock)
        rows = hold.rows[:1] if step == "p" else hold.rows
        outcomes = [8] * len(rows) if step in "fi" else [1] * len(rows)
        if step in "fi":
            outcomes[0] = 2 if step == "f" else None
        ids = [row[0] for row in rows]
        if hold.window is None:
            self.query("select * from outbox.settle(%s::uuid[], %s::bigint[], %s::int[])", ids, [row[1] for row in rows], outcomes)
            lost = False
        else:
            lost = bool(self.query("select * from outbox.settle_window(array[%s::int], array[%s::bigint], array[%s::bigint], array[0], %s::int[], "
                                   "%s::uuid[], %s::int[], delays => %s::bigint[]) where result = 'lost'", *hold.window, [1] * len(ids), ids,
                                   outcomes, [0] * len(ids)))

        def effect():
            if step in "ops":
                hold.delivered.update((row[2], at) for row in rows)
            hold.rows = hold.rows[1:] if step == "p" else []
            if not hold.rows:
                self.held.remove(hold)
            if step == "i" and not lost:
                under_way = Hold(rows[:1])
                under_way.start = hold.start
                self.held.append(under_way)
                self.run.holds.append(under_way)
        self.then.append(effect)


def steps_of(script):
    """(number of the transaction, step) of each step."""
    return [(number, step) for number, steps in enumerate(script) for step in steps.split()]


class Run:
    """A scenario on a database."""

    def __init__(self, database, scenario, seed=1):
        self.database, self.random = database, random.Random(seed)
        self.scripts = {name: steps_of(script) for name, script in SCENARIOS[scenario].items()}
        self.clock = itertools.count(1)
        self.sessions = {name: Session(name, database, self) for name in self.scripts}
        self.drainer = Session("drainer", database, self)
        self.holds, self.committed, self.waits = [], [], 0
        self.drainer.query("select outbox.configure('*', 'lane', 'log')")
        self.drainer.query("select outbox.enqueue('t', '1', key => %s)", KEY)
        (self.shard,), = self.drainer.query("select shard from outbox.message where key = %s limit 1", KEY)
        self.drain()

    def close(self):
        for session in [*self.sessions.values(), self.drainer]:
            session.conn.close()

    def orders(self, most):
        """All orders if there are no more than that, else so many of them."""
        names = [name for name, script in self.scripts.items() for _ in script]
        count = math.factorial(len(names))
        for script in self.scripts.values():
            count //= math.factorial(len(script))
        if count <= most:
            yield from (order for order in self.every({n: len(s) for n, s in self.scripts.items()}) if not self.waits_for_key(order))
            return
        while most > 0:
            order = self.some_order()
            if not self.waits_for_key(order):
                most -= 1
                yield order

    def some_order(self):
        """Producers are ahead more often than not: what has nothing to take proves little."""
        left, order = {name: len(script) for name, script in self.scripts.items()}, []
        while any(left.values()):
            name, = self.random.choices(list(left), [count * (3 if name[0] == "P" else 1) for name, count in left.items()])
            left[name] -= 1
            order.append(name)
        return tuple(order)

    def every(self, counts):
        if not any(counts.values()):
            yield ()
        for name in [name for name in counts if counts[name]]:
            for rest in self.every({**counts, name: counts[name] - 1}):
                yield (name, *rest)

    def waits_for_key(self, order):
        """A producer that waits for another's key makes an order that is another one's."""
        at, owner = dict.fromkeys(self.scripts, 0), None
        for name in order:
            step = self.scripts[name][at[name]][1]
            at[name] += 1
            if name[0] == "P" and "e" in step:
                if owner not in (None, name):
                    return True
                owner = name
            if owner == name and step[-1] in "cr":
                owner = None
        return False

    def play(self, order):
        """One order; what is wrong with it."""
        self.holds, self.committed = [], []
        for session in self.sessions.values():
            session.reset()
        at, todo, waits = dict.fromkeys(self.scripts, 0), list(order), 0
        while todo:
            name = todo.pop(0)
            script = self.scripts[name]
            try:
                self.sessions[name].step(script[at[name]][1])
                at[name] += 1
            except Wait:
                waits += 1
                assert waits < 50, "stuck: %s" % (order,)
                self.sessions[name].then, self.sessions[name].sent = [], []
                first = next(i for i, x in enumerate(script) if x[0] == script[at[name]][0])
                mine = [name] * (at[name] - first + 1 + todo.count(name))
                at[name] = first
                rest = [x for x in todo if x != name]
                todo = rest[:2] + mine + rest[2:]
        self.waits += waits
        for session in self.sessions.values():
            while session.held:
                session.settle("o" if session.held[0].window else "s")
                session.committed()
        self.drain()
        return self.wrong()

    def drain(self):
        for _ in range(200):
            got = self.drainer.take(2, self.shard)
            if not got:
                got = self.drainer.claim(10, False)
            self.drainer.committed()
            if not got:
                return
            self.drainer.settle("o" if self.drainer.held[0].window else "s")
            self.drainer.committed()
        raise AssertionError("it does not drain")

    def wrong(self):
        wanted, found = dict((what, ident) for ident, what in self.committed), []
        given = {}
        for hold in self.holds:
            for what in hold.delivered:
                given.setdefault(what, []).append(hold)
        found += ["lost %s" % what for what in wanted if what not in given]
        found += ["unexpected %s" % what for what in given if what not in wanted]
        found += ["twice %s" % what for what in given if len(given[what]) > 1 and not any(hold.ended for hold in given[what])]
        seqs = sorted(what for what in wanted if isinstance(what, int) and what in given)
        for one, next_one in zip(seqs, seqs[1:]):
            settled = min(hold.delivered[one] for hold in given[one])
            if any(hold.start < settled for hold in given[next_one] if hold not in given[one] and not hold.ended):
                found.append("order %s %s" % (one, next_one))
        unrecorded = self.drainer.query("select count(*) from unnest(%s::uuid[]) t(id) where (select count(*) from outbox.attempt_stored a "
                                        "where a.message_id = t.id and a.outcome = 1) <> 1", list(wanted.values()))[0][0]
        left = self.drainer.query("select (select count(*) from outbox.queue), (select count(*) from outbox.log_window where open)")[0]
        if unrecorded:
            found.append("not on record once: %d" % unrecorded)
        if any(left):
            found.append("left in the queue %d, open %d" % left)
            self.drainer.query("delete from outbox.queue")
        return found


def explore(database, scenario, most, seed=1, until_red=False, seconds=None):
    """(orders played, orders that went wrong, the first few of them with what was wrong)."""
    run = Run(database, scenario, seed)
    played, bad, began = 0, [], time.monotonic()
    try:
        for order in run.orders(most):
            played += 1
            try:
                wrong = run.play(order)
            except (AssertionError, psycopg.Error) as error:
                wrong = ["%s: %s" % (type(error).__name__, str(error).split("\n")[0])]
            if wrong:
                bad.append((" ".join(order), wrong))
                if until_red:
                    break
            if seconds and time.monotonic() > began + seconds:
                break
    finally:
        run.close()
    return played, bad
