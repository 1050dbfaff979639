"""What people see of messages that are only in the log, or in a window of it: the same as of any other.

Proves: V8 V15 M20 N2 S14, isolation of tenants in views (Y3).
"""
import random

import pytest

from support.log import Window, send
from support.roles import people

TENANTS = ["0a0a0a0a-1111-4222-8333-444444444444", "0b0b0b0b-1111-4222-8333-444444444444"]


@pytest.fixture
def conn(db):
    with db.connect(autocommit=True) as conn:
        conn.execute("SELECT outbox.configure('*', 'lane', 'log')")
        yield conn


def state(conn, ident, view="messages"):
    return conn.execute("SELECT status, attempts, spent, parked, locked_by, locked_until IS NOT NULL, next_attempt_at "
                        "IS NOT NULL, delivered_at IS NOT NULL, last_code FROM outbox.%s WHERE id = %%s" % view, (ident,)).fetchone()


def counts(conn, of="status"):
    return conn.execute("SELECT pending, due, delayed, processing, stuck FROM outbox.status").fetchone() if of == "status" \
        else conn.execute("SELECT pending, due, processing, stuck, estimated FROM outbox.gauges() LIMIT 1").fetchone()


def test_the_life_of_a_message(conn):
    """V8: pending in the log, processing in a window, then delivered; attempts, status and counts go along."""
    one = send(conn)
    assert conn.execute("SELECT count(*) FROM outbox.queue").fetchone() == (0,)
    pending = ("pending", 0, 0, False, None, False, True, False, None)
    assert state(conn, one) == state(conn, one, "queued") == pending
    assert conn.execute("SELECT next_attempt_at = created_at, updated_at = created_at, max_attempts, max_attempts_from "
                        "FROM outbox.messages").fetchone() == (True, True, 15, "namespace")
    assert conn.execute("SELECT count(*) FROM outbox.attempts").fetchone() == (0,)
    assert conn.execute("SELECT status, retry_count FROM outbox.outbox").fetchone() == ("pending", 0)
    assert counts(conn) == (1, 1, 0, 0, 0) and counts(conn, "gauges") == (1, 1, 0, 0, False)

    window = Window(conn, "worker-1")
    assert window.ids == [one]
    processing = ("processing", 1, 1, False, "worker-1", True, False, False, None)
    assert state(conn, one) == state(conn, one, "queued") == processing
    assert conn.execute("SELECT message_id, attempt_no, outcome, worker, topic, completed_at FROM outbox.attempts WHERE claimed_at = "
                        "(SELECT updated_at FROM outbox.messages)").fetchall() == [(one, 1, "processing", "worker-1", "t", None)]
    assert conn.execute("SELECT status FROM outbox.outbox").fetchone() == ("publishing",)
    assert counts(conn) == (0, 0, 0, 1, 0) and counts(conn, "gauges") == (0, 0, 1, 0, False)

    window.settle([one])
    assert state(conn, one) == ("delivered", 1, 1, False, None, False, False, True, None)
    assert state(conn, one, "queued") is None
    assert conn.execute("SELECT attempt_no, outcome FROM outbox.attempts").fetchall() == [(1, "delivered")]
    assert counts(conn) == (0, 0, 0, 0, 0) and counts(conn, "gauges") == (0, 0, 0, 0, False)


def test_delayed_and_expiring(conn):
    """V8: due when its producer said, or when it expires if that is earlier; delayed ones are counted as such."""
    send(conn, key="k", deliver_after="2100-01-01 00:00Z", max_attempts=3)
    send(conn, key="k", expires_at="2000-01-01 00:00Z")
    rows = conn.execute("SELECT next_attempt_at = '2100-01-01 00:00Z', next_attempt_at = '2000-01-01 00:00Z', max_attempts, "
                        "max_attempts_from FROM outbox.queued ORDER BY seq").fetchall()
    assert rows == [(True, False, 3, "message"), (False, True, 15, "namespace")]
    assert counts(conn) == (2, 1, 1, 0, 0)


def test_discarded_is_said_of_discarded_ones_only(conn):
    """V8 S14: expired unseen, then discarded: it was in the log once and has no attempt."""
    gone = send(conn, expires_at="2000-01-01 00:00Z")
    stays = send(conn)
    conn.execute("SELECT outbox.claim('w', 10)")
    assert conn.execute("SELECT outbox.discard(ids => ARRAY[%s])", (gone,)).fetchone() == (1,)
    assert state(conn, gone)[0] == "discarded" and state(conn, stays)[0] == "processing"


def test_an_operator_acts_on_dead_letters_only(conn):
    """S14: retry and discard of what is only in the log touch nothing, as with any pending one."""
    one = send(conn)
    for act in ("retry", "discard"):
        assert conn.execute("SELECT outbox.%s(ids => ARRAY[%%s])" % act, (one,)).fetchone() == (0,)
    window = Window(conn)
    for act in ("retry", "discard"):
        assert conn.execute("SELECT outbox.%s(ids => ARRAY[%%s])" % act, (one,)).fetchone() == (0,)
    window.settle([one])
    assert state(conn, one)[0] == "delivered"


def test_stuck(conn):
    """V8: a window whose lease has ended is stuck, until somebody takes again: then it is in the queue."""
    one = send(conn)
    Window(conn)
    conn.execute("UPDATE outbox.log_window SET until = now() - interval '1 s', swept = now() - interval '1 h' WHERE open")
    assert counts(conn) == (0, 0, 0, 1, 1) and counts(conn, "gauges") == (0, 0, 1, 1, False)
    assert state(conn, one)[0] == "processing"
    assert Window(conn).ids == []
    assert counts(conn) == (0, 0, 0, 1, 1) and counts(conn, "gauges") == (0, 0, 1, 1, False)
    assert state(conn, one) == ("processing", 1, 1, False, "w", True, False, False, None)


def test_tenants_see_their_own(db, conn):
    """Y3: whatever state it is in, and whoever asks."""
    ids = {tenant: send(conn, tenant_id=tenant) for tenant in TENANTS}
    users = people(db)
    for taken in (False, True):
        if taken:
            assert len(Window(conn).ids) == 2
        for tenant in TENANTS:
            with users.connect("tenant", autocommit=True) as own:
                for view in ("messages", "queued"):
                    assert own.execute("SELECT id FROM outbox.%s" % view).fetchall() == []
                own.execute("SELECT set_config('app.current_tenant_id', %s, false)", (tenant,))
                for view in ("messages", "queued"):
                    assert own.execute("SELECT id FROM outbox.%s" % view).fetchall() == [(ids[tenant],)]
                assert own.execute("SELECT message_id FROM outbox.attempts").fetchall() == ([(ids[tenant],)] if taken else [])
        assert conn.execute("SELECT count(*) FROM outbox.queued").fetchone() == (2,)
    for view in ("log_head", "log_waiting", "log_sample", "log_taken"):
        with users.connect("tenant", autocommit=True) as own, pytest.raises(Exception, match="permission denied"):
            own.execute("SELECT * FROM outbox.%s" % view)


@pytest.mark.parametrize("seed", range(4))
def test_every_message_is_in_one_place(db, conn, seed):
    """V8 N2: producers whose transactions overlap, windows of odd sizes, settled in part, admitted and claimed: at every moment the
    views say of each message where it stands, and queued, status and gauges agree."""
    rng = random.Random(seed)
    known, windows, open_ = {}, [], []
    others = [db.connect() for _ in range(3)]
    try:
        for _ in range(60):
            do = rng.choice(["send", "send", "send", "commit", "commit", "rollback", "take", "take", "settle", "settle", "fail", "claim"])
            producer = rng.choice(others)
            if do == "send":
                more = {"key": "k%d" % rng.randrange(4)} if rng.random() < 0.6 else {}
                if "key" in more and any(p is not producer and more["key"] in keys for p, keys, _ in open_):
                    continue
                if not any(p is producer for p, _, _ in open_):
                    producer.execute("SELECT pg_current_xact_id()")
                    open_.append((producer, set(), []))
                    if rng.random() < 0.5:
                        continue # its number is older than its messages
                mine = next(o for o in open_ if o[0] is producer)
                mine[1].update(more.values())
                mine[2].append(send(producer, **more))
            elif do in ("commit", "rollback"):
                mine = next((o for o in open_ if o[0] is producer), None)
                getattr(producer, do)()
                if mine:
                    open_.remove(mine)
                    if do == "commit":
                        known.update((ident, "pending") for ident in mine[2])
            elif do == "take":
                window = Window(conn, limit=rng.randrange(1, 4))
                known.update((ident, "processing") for ident in window.ids)
                if window.ids:
                    windows.append(window)
            elif windows and do in ("settle", "fail"):
                window = rng.choice(windows)
                some = window.ids[:rng.randrange(1, 3)]
                window.settle(some, 1 if do == "settle" else 2)
                window.ids = window.ids[len(some):]
                known.update((ident, "delivered" if do == "settle" else "pending") for ident in some)
                if not window.ids:
                    windows.remove(window)
            elif do == "claim":
                for ident, token in conn.execute("SELECT id, token FROM outbox.claim('c', 1)").fetchall():
                    known[ident] = "processing"
                    if rng.random() < 0.5:
                        conn.execute("SELECT outbox.ack(ARRAY[%s], ARRAY[%s::bigint])", (ident, token))
                        known[ident] = "delivered"
            seen = dict(conn.execute("SELECT id, status FROM outbox.messages").fetchall())
            assert seen == known
            rows = conn.execute("SELECT id, status FROM outbox.queued").fetchall()
            assert dict(rows) == {i: s for i, s in known.items() if s != "delivered"} and len(rows) == len(dict(rows))
            want = tuple(sum(s == word for s in known.values()) for word in ("pending", "processing"))
            assert conn.execute("SELECT sum(pending), sum(processing) FROM outbox.status").fetchone() in (want, (None, None))
            assert conn.execute("SELECT pending, processing FROM outbox.gauges() LIMIT 1").fetchone() == want
            assert conn.execute("SELECT count(*) FROM outbox.attempts WHERE outcome = 'processing'").fetchone() == (want[1],)
    finally:
        for other in others:
            other.close()


def test_estimates_of_a_long_log(conn):
    """M20 V15: past the first 10,000 of a shard the positions tell how many there are; the age is that of the oldest."""
    for _ in range(3):
        for what in ("'topic', 't', 'payload', 1, 'key', i % 50", "'topic', 'u', 'payload', 1"):
            conn.execute("SELECT outbox.enqueue_many((SELECT jsonb_agg(jsonb_build_object(%s)) FROM generate_series(1, 1000) i))" % what)
    assert conn.execute("SELECT pending, due, estimated FROM outbox.gauges() LIMIT 1").fetchone() == (6000, 6000, False)
    assert conn.execute("SELECT topic, pending FROM outbox.status ORDER BY 1").fetchall() == [("t", 3000), ("u", 3000)]
    for _ in range(10):
        conn.execute("SELECT outbox.enqueue_many((SELECT jsonb_agg(jsonb_build_object('topic', 'u', 'payload', 1)) FROM "
                     "generate_series(1, 1000) i))")
    pending, due, estimated, oldest = conn.execute("SELECT pending, due, estimated, oldest_due_s FROM outbox.gauges() LIMIT 1").fetchone()
    assert 15000 < pending <= 16000 and due == pending and estimated and oldest > 0


def test_reads_only_what_waits(conn):
    """M20 V15: many delivered ones, ten in the log: queued, status and gauges do not read the former."""
    for _ in range(40):
        conn.execute("SELECT outbox.enqueue_many((SELECT jsonb_agg(jsonb_build_object('topic', 't', 'payload', 1)) FROM "
                     "generate_series(1, 1000) i))")
        window = Window(conn, limit=1000)
        window.settle(window.ids)
    ids = [send(conn, key="k%d" % (i % 3)) for i in range(5)] + [send(conn) for _ in range(5)]
    conn.execute("VACUUM ANALYZE outbox.message, outbox.attempt, outbox.queue, outbox.log_window")
    read = ("SELECT coalesce(sum(seq_tup_read + coalesce(idx_tup_fetch, 0)), 0) FROM pg_stat_xact_all_tables WHERE schemaname = "
            "'outbox' AND relname ~ '^(message|attempt)_'")
    for text, want in (("SELECT id FROM outbox.queued ORDER BY id DESC", sorted(ids, reverse=True)),
                       ("SELECT id FROM outbox.queued ORDER BY id DESC LIMIT 5", sorted(ids, reverse=True)[:5]),
                       ("SELECT sum(pending) FROM outbox.status", [10]), ("SELECT pending FROM outbox.gauges() LIMIT 1", [10]),
                       ("SELECT id FROM outbox.messages ORDER BY id DESC LIMIT 5", sorted(ids, reverse=True)[:5])):
        with conn.transaction():
            before = conn.execute(read).fetchone()[0]
            assert [row[0] for row in conn.execute(text)] == want
            assert conn.execute(read).fetchone()[0] - before < 200, text
