"""Workers side by side: the same batch settled by several at once, in different orders, by place and by id.

Proves: M10 V7 V8 S6 N2 (settles of the same messages do not deadlock, and each message is settled once).
"""
import collections
import random
import threading
import time

import psycopg
import pytest

from support.roles import people

BATCH, ROUNDS = 120, 8


def settle(rows, outcome, places):
    """The statement and its arguments for some rows of a claim, in this order."""
    ids, tokens = [row[0] for row in rows], [row[1] for row in rows]
    outcomes = [outcome(n) for n in range(len(rows))]
    return ("SELECT id, result FROM outbox.settle(%s, %s, %s, delays => %s, places => %s::tid[])",
            (ids, tokens, outcomes, [0] * len(rows), [row[2] for row in rows] if places else None))


def at_once(connections, statements):
    """Runs a statement on each connection at the same moment. The rows of each, or its exception."""
    start, ends = threading.Barrier(len(statements)), [None] * len(statements)

    def run(n):
        start.wait()
        try:
            ends[n] = connections[n].execute(*statements[n]).fetchall()
        except psycopg.Error as error:
            ends[n] = error

    threads = [threading.Thread(target=run, args=(n,)) for n in range(len(statements))]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(120)
    return ends


@pytest.mark.parametrize("keyed", [True, False])
@pytest.mark.parametrize("outcomes", ["delivered", "mixed"])
def test_one_batch_settled_by_many(db, keyed, outcomes):
    """M10 S6 N2: no deadlock, whoever names the messages in which order; of every message one settle is ok, the rest
    lost."""
    people(db)
    chance = random.Random(7)
    outcome = (lambda n: 1) if outcomes == "delivered" else (lambda n: chance.choice([1, 2, 3, 5, 8]))
    crowd = [db.connect(user="person_relay", autocommit=True) for _ in range(4)]
    try:
        for turn in range(ROUNDS):
            key = "'k%d ' || n %% 7" % turn if keyed else "NULL"
            db.sql("SELECT count(*) FROM generate_series(1, %d) n, LATERAL outbox.enqueue('t', to_jsonb(n), key => %s)" % (BATCH, key))
            rows = db.sql("SELECT id, token, place FROM outbox.claim('w', %d, '1 h', run => 1000)" % (2 * BATCH))
            assert rows
            orders = [rows, rows[::-1], chance.sample(rows, len(rows)), chance.sample(rows, len(rows))]
            statements = [settle(order, outcome, places) for order, places in zip(orders, (True, True, False, False))]
            ends = at_once(crowd, statements)
            assert [end for end in ends if not isinstance(end, list)] == []
            results = {}
            for end in ends:
                for message, result in end:
                    results.setdefault(message, []).append(result)
            assert set(results) == {row[0] for row in rows}
            assert {tuple(sorted(found)) for found in results.values()} == {("lost", "lost", "lost", "ok")}
            db.sql("DELETE FROM outbox.queue")
    finally:
        for conn in crowd:
            conn.close()
    assert db.sql("SELECT count(*) FROM (SELECT message_id FROM outbox.attempt GROUP BY 1 HAVING count(*) > 1) x") == [(0,)]


def test_settling_extending_and_claiming_at_once(db):
    """M10 V10 S6: leases end while their holders settle, extend and reclaim; every message is delivered once, and no
    attempt number repeats. A renewal and a settle by places that an earlier renewal changed may meet 40P01, as any
    transaction may, and are tried again."""
    people(db)
    chance = random.Random(11)
    db.sql("SELECT count(*) FROM generate_series(1, 200) n, LATERAL outbox.enqueue('t', to_jsonb(n), key => 'k' || n % "
           "20, max_attempts => 1000)")
    crowd = [db.connect(user="person_relay", autocommit=True) for _ in range(4)]
    delivered, claimed = {}, {}
    try:
        for _ in range(400):
            rows = db.sql("SELECT id, token, place FROM outbox.claim('w%d', 40, '1 h', run => 10)" % chance.randrange(3))
            claimed.update({row[0]: row for row in rows})
            if not claimed:
                break
            held = list(claimed.values())
            db.sql("UPDATE outbox.queue SET until = now() - interval '1 s' WHERE until IS NOT NULL AND random() < 0.3")
            some = chance.sample(held, min(len(held), 30))
            ids, tokens = [row[0] for row in some], [row[1] for row in some]
            half = len(some) // 2
            ends = at_once(crowd, [
                settle(some[:half], lambda n: 1, True),
                ("SELECT id, 'extended' FROM outbox.extend(%s, %s)", (ids, tokens)),
                settle(some[half:], lambda n: chance.choice([1, 2, 8]), False),
                ("SELECT id, token, place FROM outbox.claim('other', 40, '1 h', run => 10)",),
            ])
            assert [end for end in ends if not isinstance(end, (list, psycopg.errors.DeadlockDetected))] == []
            ends = [end if isinstance(end, list) else [] for end in ends]
            for message, result in ends[0] + ends[2]:
                if result == "ok":
                    claimed.pop(message, None)
            claimed.update({row[0]: row for row in ends[3]})
            delivered.update(dict(db.sql("SELECT message_id, count(*) FROM outbox.attempts WHERE outcome = 'delivered' "
                                         "GROUP BY 1")))
            if len(delivered) == 200:
                break
    finally:
        for conn in crowd:
            conn.close()
    assert len(delivered) == 200 and set(delivered.values()) == {1}
    assert db.sql("SELECT count(*) FROM outbox.queue") == [(0,)]


# What claims have neither taken nor parked: a claim that takes long parks only a part of what is blocked.
LOOSE = "SELECT count(*) FROM outbox.queue WHERE NOT parked AND until IS NULL"


def test_a_crowd_takes_fewer_keys_and_more_of_each(db):
    """N2 S2: who finds what others block takes runs of few keys next time; where a batch stays small, many keys again."""
    people(db)
    db.sql("SELECT outbox.configure('*', 'lane', 'queue')")
    db.sql("SELECT count(*) FROM generate_series(0, 1999) n, LATERAL outbox.enqueue('t', to_jsonb(n), key => 'k' || n % 100)")
    other, worker = (db.connect(user="person_relay", autocommit=True) for _ in range(2))

    def take(conn, run):
        """A batch, and how often each key is in it."""
        rows = conn.execute("SELECT id, token, key, seq FROM outbox.claim('w', 50, '1 h', run => %s)", (run,)).fetchall()
        return rows, collections.Counter(row[2] for row in rows)

    with other, worker:
        blocked = take(other, 1)[1]
        held = []
        while (rows := take(worker, 1)[0]) or db.sql(LOOSE) != [(0,)]:  # at the end all the rest is blocked, and parked
            held += rows
        seen, sizes = collections.defaultdict(list), []
        while held:
            worker.execute("SELECT * FROM outbox.ack(%s, %s)", ([row[0] for row in held], [row[1] for row in held]))
            for _, _, key, seq in held:
                seen[key].append(seq)
            held, keys = take(worker, 50)
            sizes.append((len(keys), len(held)))
        assert sizes[0][0] <= 30 and sizes[0][1] >= 40, sizes
        assert len(seen) == 100 - len(blocked) and not set(seen) & set(blocked)
        assert list(seen.values()) == [list(range(1, 21))] * len(seen)


def test_a_crowd_of_keys_does_not_shorten_batches_without_keys(db):
    """N2 S2: who looks for few keys still fills its batch with messages that have none, and goes back to many keys. A
    relay takes a batch that is not full for the end of the work, and sleeps."""
    people(db)
    db.sql("SELECT outbox.configure('*', 'lane', 'queue')")
    db.sql("SELECT count(*) FROM generate_series(0, 1999) n, LATERAL outbox.enqueue('t', to_jsonb(n), key => 'k' || n % 100)")
    other, worker = (db.connect(user="person_relay", autocommit=True) for _ in range(2))

    def take(conn, limit, run):
        return conn.execute("SELECT id, key FROM outbox.claim('w', %s, '1 h', run => %s)", (limit, run)).fetchall()

    with other, worker:
        take(other, 50, 1)
        while take(worker, 50, 1) or db.sql(LOOSE) != [(0,)]:  # all the rest is parked then: the next claim goes deep
            pass
        db.sql("SELECT count(*) FROM generate_series(1, 1000) n, LATERAL outbox.enqueue('u', to_jsonb(n))")
        db.sql("SELECT count(*) FROM generate_series(1, 200) n, LATERAL outbox.enqueue('u', to_jsonb(n), key => 'x' || n)")
        end = time.monotonic() + 30  # who found the last search dear waits up to ten seconds with the next
        while not (first := take(worker, 50, 16)) and time.monotonic() < end:
            time.sleep(0.1)
        assert [len(first)] + [len(take(worker, 50, 16)) for _ in range(9)] == [50] * 10


@pytest.mark.parametrize("tenant", [None, "6b4a3c1e-0000-4000-8000-000000000001"])
def test_a_full_batch_where_one_topic_has_nearly_all(db, tenant):
    """T1 N2: topics share a batch, but what some do not need is for the others. A relay takes a batch that is not full for
    the end of the work, and sleeps."""
    people(db)
    db.sql("SELECT outbox.configure('*', 'lane', 'queue')")
    db.sql("SELECT count(*) FROM generate_series(1, 1000) n, LATERAL outbox.enqueue('big', to_jsonb(n), tenant_id => %s::uuid)", tenant)
    with db.connect(user="person_relay", autocommit=True) as worker:
        for _ in range(4):
            db.sql("SELECT count(*) FROM generate_series(1, 9) n, LATERAL outbox.enqueue('small' || n, '1', tenant_id => %s::uuid)", tenant)
            rows = worker.execute("SELECT topic FROM outbox.claim('w', 100, '1 h', tenant => %s::uuid)", (tenant,)).fetchall()
            assert len(rows) == 100
            assert len({topic for topic, in rows}) == 10


def test_what_was_woken_is_found_though_a_sweep_is_dear(db):
    """N2 M9: settled rows that an old transaction keeps make looking from the beginning dear, so claims go on from where they were.
    A message whose turn comes then is found at once, whatever its priority: no claim says that there is nothing."""
    with db.connect() as old, db.connect(autocommit=True) as worker:
        old.execute("SET TRANSACTION ISOLATION LEVEL REPEATABLE READ")
        old.execute("SELECT 1")
        worker.execute("SELECT count(*) FROM generate_series(1, 20000) n, LATERAL outbox.enqueue('t', '{}', priority => 9)")
        ended = "SELECT count(*) FROM (SELECT array_agg(id) ids, array_agg(token) tokens FROM outbox.claim('w', %d, run => 1) HAVING count(*) > 0) c, LATERAL outbox.ack(c.ids, c.tokens)"
        while worker.execute(ended % 5000).fetchone()[0]:
            pass
        for priority in range(9, 0, -1):
            worker.execute("SELECT outbox.enqueue('t', '{}', key => 'k', priority => %s)", (priority,))
        counts = [worker.execute(ended % 1).fetchone()[0] for _ in range(9)]
    assert counts == [1] * 9
