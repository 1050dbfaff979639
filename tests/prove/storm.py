"""A storm: producers and workers on one PostgreSQL outbox, killed at random, and a ledger of every message.

The producers write a row of their own table (`ledger`) in the transaction that enqueues, and roll a part of those
transactions back: what is in that table is what must be delivered, and nothing else. The workers write a line to a file
of their own when they "accept" a message, before they settle it. A storm kills workers and producers (SIGKILL), terminates
their backends, and now and then kills a backend with SIGKILL, upon which PostgreSQL restarts. Then everything is drained,
and the files are held against the table:

    lost         committed, and neither accepted nor dead
    unexpected   accepted, and rolled back or never sent
    reordered    of one key: first accepted after a later one was
    gaps         of one key: seq is not 1, 2, 3 ... without a hole
    rewritten    attempt numbers of one message that repeat or fall

All must be zero. Duplicates are counted: at least once means that they may be.
"""
import collections
import json
import os
import random
import signal
import sys
import time

import psycopg

LEASE = 2.0
HOT = 10.0  # seconds that a key is the hot one


class Member:
    """A process of the storm. It is forked, so that hundreds of them can die without a start-up each."""

    def __init__(self, role, number, conninfo, folder, stop_at, seed):
        self.role, self.number = role, number
        self.log = os.path.join(folder, "%s-%d.log" % (role, number))
        self.pid = os.fork()
        if self.pid == 0:
            code = 1
            try:
                random.seed(seed)
                signal.signal(signal.SIGINT, signal.SIG_IGN)
                live(role, "%s-%d" % (role, number), conninfo, self.log, stop_at)
                code = 0
            finally:
                os._exit(code)

    def kill(self):
        os.kill(self.pid, signal.SIGKILL)
        os.waitpid(self.pid, 0)

    def ended(self):
        return os.waitpid(self.pid, os.WNOHANG)[0] == self.pid


def live(role, name, conninfo, log, stop_at):
    """Works until the time is up, through every loss of the connection."""
    work = {"producer": produce, "worker": deliver, "taker": take}[role]
    fd = os.open(log, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o644)
    while time.monotonic() < stop_at:
        try:
            with psycopg.connect(conninfo, autocommit=True, connect_timeout=5, application_name=name) as conn:
                while time.monotonic() < stop_at:
                    work(conn, name, fd)
        except psycopg.Error:
            time.sleep(0.05)


def hot_key():
    """All producers use it at once, but not for long: workers that forget and fail do a few dozen messages of one key in a second, and
    a drain does the keys beside each other."""
    return "hot-%d" % (time.monotonic() // HOT)


def produce(conn, name, fd):
    """One transaction of one to four messages; a fifth of them is rolled back, some commit late."""
    try:
        with conn.transaction():
            for _ in range(random.randint(1, 4)):
                number = random.getrandbits(62)
                key = random.choice([None, hot_key(), "key-%d" % random.randint(1, 40)])
                dedupe = str(number) if random.random() < 0.3 else None
                row = conn.execute("select * from outbox.enqueue('storm', %s::jsonb, key => %s, dedupe_key => %s, "
                                   "max_attempts => 1000)", (json.dumps({"n": number}), key, dedupe)).fetchone()
                conn.execute("insert into ledger values (%s, %s, %s, %s)", (number, row[0], key, row[2]))
            if random.random() < 0.1:
                time.sleep(random.random() * 0.05)
            if random.random() < 0.2:
                raise psycopg.Rollback()
    except (psycopg.errors.DeadlockDetected, psycopg.errors.SerializationFailure):
        pass


def deliver(conn, name, fd):
    """One batch: accepted, failed, given back or left lying, a key in order and up to its first failure."""
    began = time.monotonic()
    run = random.choice([1, 1, 20])
    rows = conn.execute("select id, token, key, seq, payload->>'n', attempt from outbox.claim(%s, %s, "
                        "make_interval(secs => %s), run => %s)", (name, random.randint(1, 40), LEASE, run)).fetchall()
    if not rows:
        time.sleep(0.01)
        return
    outcomes, stopped = [], set()
    for ident, token, key, seq, number, attempt in rows:
        late = time.monotonic() - began > LEASE * 0.9
        if late or key in stopped:
            outcomes.append((ident, token, 8))
            stopped.add(key)
            continue
        dice = random.random()
        if dice < 0.02:
            outcomes.append((ident, token, 2))
            stopped.add(key)
        elif dice < 0.03:
            stopped.add(key)  # forgotten: the lease will run out
        else:
            os.write(fd, b"%d %s %s %d %s %d\n" % (time.monotonic_ns(), str(ident).encode(), number.encode(), seq or 0,
                                                   (key or "-").encode(), attempt))
            outcomes.append((ident, token, 1))
        stopped.discard(None)
    # Accepted, and not settled: the duplicate-maker.
    if random.random() < 0.02 or not outcomes:
        return
    conn.execute("select * from outbox.settle(%s::uuid[], %s::bigint[], %s::int[], delays => %s::bigint[])",
                 ([o[0] for o in outcomes], [o[1] for o in outcomes], [o[2] for o in outcomes],
                  [random.randint(0, 20000) for _ in outcomes])).fetchall()


def take(conn, name, fd):
    """One window of the log, delivered as a whole. log_storm.py has the trouble that there can be with windows."""
    nonce = random.getrandbits(61) + 1
    shard, ident, size = conn.execute("select shard, id, size from outbox.take(%s, 50, make_interval(secs => %s), %s)",
                                      (name, LEASE, nonce)).fetchone()
    if not size:
        time.sleep(0.01)
        return
    rows = conn.execute("select id, payload->>'n', seq, key from outbox.window_messages where nonce = %s", (nonce,)).fetchall()
    for row, number, seq, key in rows:
        os.write(fd, b"%d %s %s %d %s %d\n" % (time.monotonic_ns(), str(row).encode(), number.encode(), seq or 0,
                                               (key or "-").encode(), 1))
    if rows:
        conn.execute("select * from outbox.settle_window(array[%s::int], array[%s::bigint], array[%s::bigint], array[0], %s::int[], "
                     "%s::uuid[], %s::int[])", (shard, ident, nonce, [1] * len(rows), [row[0] for row in rows], [1] * len(rows)))


class Storm:
    def __init__(self, server, database, folder, producers=3, workers=4, seed=1, takers=0):
        self.server, self.database, self.folder = server, database, folder
        self.random = random.Random(seed)
        self.roles = ["producer"] * producers + ["worker"] * workers + ["taker"] * takers
        self.members = []
        self.count = 0
        self.kills = collections.Counter()

    def start(self, role, stop_at):
        self.count += 1
        member = Member(role, self.count, self.database.conninfo(), self.folder, stop_at, self.random.random())
        self.members.append(member)
        return member

    def run(self, kills, crashes, seconds):
        """So many kills in so many seconds, crashes of them by SIGKILL of a backend."""
        self.database.sql("create table ledger (number bigint primary key, id uuid not null, key text, seq bigint)")
        stop_at = time.monotonic() + seconds
        self.alive = [self.start(role, stop_at) for role in self.roles]
        crash_at = set(self.random.sample(range(kills), crashes))
        began = time.monotonic()
        for number in range(kills):
            time.sleep(max(0, began + (number + 1) * (seconds * 0.95) / kills - time.monotonic()))
            self.server.check_alive()
            if number in crash_at:
                self.crash()
            elif self.random.random() < 0.5 or not self.terminate():
                self.kill_member(stop_at)
        for member in self.alive:
            while time.monotonic() < stop_at + 10 and not member.ended():
                time.sleep(0.02)
        return self

    def kill_member(self, stop_at):
        victim = self.alive.pop(self.random.randrange(len(self.alive)))
        if not victim.ended():
            victim.kill()
        self.kills["client"] += 1
        self.alive.append(self.start(victim.role, stop_at))

    def backends(self):
        try:
            return [row[0] for row in self.database.sql(
                "select pid from pg_stat_activity where application_name ~ '^(producer|worker|taker)-' and state <> 'idle'")]
        except psycopg.Error:
            return []  # the server is coming up again

    def terminate(self):
        """False when there is no backend to be had: the server is coming up again."""
        pids = self.backends()
        if pids:
            try:
                self.database.sql("select pg_terminate_backend(%s)", self.random.choice(pids))
                self.kills["backend terminated"] += 1
                return True
            except psycopg.Error:
                pass
        return False

    def crash(self):
        """SIGKILL of a backend; the whole server restarts and recovers."""
        for _ in range(200):
            pids = self.backends()
            if pids:
                os.kill(self.random.choice(pids), signal.SIGKILL)
                self.kills["backend SIGKILL"] += 1
                return
            time.sleep(0.05)
        self.kills["missed"] += 1

    def drain(self, patience=60, limit=1200):
        """Everything that is left is delivered by workers that nobody kills. They forget and fail on purpose, so it takes
        its time; but where no attempt ends for so long, it is stuck."""
        end = time.monotonic() + limit
        workers, ended, moved = [], None, time.monotonic()
        while time.monotonic() < min(end, moved + patience):
            try:
                if self.left() == 0:
                    break
                attempts = self.database.sql("select count(*) from outbox.attempt")
                if attempts != ended:
                    ended, moved = attempts, time.monotonic()
                if not workers:
                    workers = [self.start("worker", end) for _ in range(2)]
            except psycopg.Error:
                pass
            time.sleep(0.2)
        for worker in workers:
            worker.kill()

    def left(self):
        """Rows of the queue, open windows, and shards of the log that have something to take."""
        return self.database.sql("select (select count(*) from outbox.queue) + (select count(*) from outbox.log_window where open) + "
                                 "coalesce(cardinality((outbox.look(0)).ready), 0)")[0][0]

    def check(self):
        """The ledger. Returns the counts; all of VERDICT must be 0."""
        sent = {row[0]: row for row in self.database.sql("select number, id::text, key, seq from ledger")}
        dead = {row[0] for row in self.database.sql("select id::text from outbox.dead_letters")}
        accepted = collections.defaultdict(list)
        for name in os.listdir(self.folder):
            with open(os.path.join(self.folder, name), "rb") as lines:
                for line in lines.read().split(b"\n"):
                    parts = line.decode().split()
                    if len(parts) == 6:
                        accepted[int(parts[2])].append(int(parts[0]))
        first = {number: min(times) for number, times in accepted.items()}
        lost = [n for n, row in sent.items() if n not in accepted and row[1] not in dead]
        unexpected = [n for n in accepted if n not in sent]
        keys = collections.defaultdict(dict)
        for number, ident, key, seq in sent.values():
            if key:
                keys[key][seq] = number
        gaps = sum(sorted(seqs) != list(range(1, len(seqs) + 1)) for seqs in keys.values())
        reordered = 0
        for seqs in keys.values():
            times = [first[seqs[s]] for s in sorted(seqs) if seqs[s] in first]
            reordered += sum(a > b for a, b in zip(times, times[1:]))
        rewritten = self.database.sql("select count(*) from (select message_id from outbox.attempt_stored group by message_id "
                                      "having count(*) <> count(distinct attempt_no)) x")[0][0]
        return {"committed": len(sent), "accepted": sum(map(len, accepted.values())), "keys": len(keys),
                "duplicates": sum(len(t) - 1 for t in accepted.values()), "dead": len(dead), "lost": len(lost),
                "unexpected": len(unexpected), "reordered": reordered, "gaps": gaps, "rewritten": rewritten,
                "left": self.left(), "kills": dict(self.kills)}


VERDICT = ("lost", "unexpected", "reordered", "gaps", "rewritten", "left")


def report(found, out=sys.stdout):
    for name, value in found.items():
        out.write("  %-12s %s\n" % (name, value))
    return all(found[name] == 0 for name in VERDICT)
