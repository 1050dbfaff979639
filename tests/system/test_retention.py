"""Retention: purge makes the coming partitions and drops the old ones, and loses nothing that is still wanted.

Proves: S1 S4 S7 Y7 N10 (expired messages end as dead letters, which stay).
"""
import uuid

import pytest

from support import past
from support.roles import error_of, people, refused

TENANT = uuid.UUID("11111111-1111-4111-8111-111111111111")


def send(db, what, **more):
    names = "".join(", %s => %%s" % name for name in more)
    return db.sql("SELECT id FROM outbox.enqueue('t', to_jsonb(%%s::text)%s)" % names, what, *more.values())[0][0]


def settle(db, outcome, **arrays):
    names = "".join(", %s => ARRAY[%%s]" % name for name in arrays)
    done = db.sql("SELECT s.result FROM outbox.claim('w', 1) c, LATERAL outbox.settle(ARRAY[c.id], ARRAY[c.token], "
                  "ARRAY[%%s]%s) s"
                  % names, outcome, *arrays.values())
    assert done == [("ok",)]


def partitions(conn, parent):
    return {row[0] for row in conn.execute("SELECT c.relname FROM pg_inherits i JOIN pg_class c ON c.oid = i.inhrelid "
                                           "WHERE i.inhparent = %s::regclass", ("outbox." + parent,))}


def view(db, what="payload #>> '{}', status", order="created_at, id"):
    return db.sql("SELECT %s FROM outbox.messages ORDER BY %s" % (what, order))


@pytest.fixture
def conn(db):
    """Of the queue; for the log there is test_log_retention.py."""
    with db.connect(autocommit=True) as conn:
        conn.execute("SELECT outbox.configure('*', 'lane', 'queue')")
        past.purge(conn)
        yield conn


# ---- coming partitions -----------------------------------------------------------------------------------------------


def test_coming_partitions_are_there(db, conn):
    """S1 Y7: the present period and two more, at once after migrate; a second purge finds nothing to do."""
    assert past.purge(conn) == [("done", "nothing is left to do", 0)]
    covered = conn.execute("SELECT min(start) <= now(), max(finish) > now() + interval '2 days', count(*) FROM "
                           "outbox.period").fetchone()
    assert covered[:2] == (True, True)
    assert len(partitions(conn, "message")) == len(partitions(conn, "attempt")) == covered[2] + 1
    send(db, "x")
    assert conn.execute("SELECT tableoid::regclass::text FROM outbox.message").fetchone()[0] != "outbox.message_default"


def test_the_width_is_a_setting(db, conn):
    """Y7: later periods have the new width and begin where the last one ends; there is no gap and no overlap."""
    conn.execute("SELECT outbox.configure('*', 'partition_width', '7 days')")
    made = [step for step in past.purge(conn) if step[0] == "create"]
    assert len(made) == 2
    rows = conn.execute("SELECT start, finish, lag(finish) OVER (ORDER BY start) FROM outbox.period ORDER BY start").fetchall()
    assert all(before is None or before == start for start, _, before in rows)
    assert (rows[-1][1] - rows[-1][0]).days == 7


def test_nobody_ran_purge_for_long(db, conn):
    """S1: messages fall into the default partition: no producer fails. When purge runs again it puts that aside as a whole,
    without reading it, makes the present partitions, and everything is where it was for everybody."""
    for suffix, in conn.execute("SELECT suffix FROM outbox.period").fetchall():
        for parent in ("message", "attempt"):
            conn.execute("DROP TABLE outbox.%s_%s" % (parent, suffix))
    conn.execute("DELETE FROM outbox.period")
    send(db, "before")
    settle(db, 1)
    send(db, "waits", key="k")
    assert conn.execute("SELECT DISTINCT tableoid::regclass::text FROM outbox.message").fetchall() == [("outbox.message_default",)]
    before = db.sql("SELECT * FROM outbox.messages ORDER BY id"), db.sql("SELECT * FROM outbox.attempts ORDER BY 1")
    read = "SELECT sum(pg_stat_get_xact_tuples_returned(%s) + pg_stat_get_xact_tuples_fetched(%s))"
    full = conn.execute("SELECT 'outbox.message_default'::regclass::oid").fetchone() * 2
    with conn.transaction():
        assert conn.execute("SELECT action FROM outbox.purge()").fetchone() == ("create",)
        assert conn.execute(read, full).fetchone()[0] <= 2, "it was read"
    past.purge(conn)
    assert conn.execute("SELECT min(start) < now(), max(finish) > now() + interval '2 days' FROM outbox.period").fetchone() \
        == (True, True)
    assert (db.sql("SELECT * FROM outbox.messages ORDER BY id"), db.sql("SELECT * FROM outbox.attempts ORDER BY 1")) == before
    send(db, "after", key="k")
    assert past.purge(conn)[-1][0] == "done"
    assert view(db) == [("before", "delivered"), ("waits", "pending"), ("after", "pending")]
    settle(db, 1)
    settle(db, 1)
    assert view(db) == [("before", "delivered"), ("waits", "delivered"), ("after", "delivered")]
    assert conn.execute("SELECT DISTINCT tableoid::regclass::text FROM outbox.message").fetchone()[0] != "outbox.message_default"


def test_what_was_put_aside_leaves(db, conn):
    """Y7 S1 V14: what fell into a default partition that was put aside is kept as long as the rest, erased like the rest,
    and its tables go when they are empty."""
    for round in range(2):
        for suffix, in conn.execute("SELECT suffix FROM outbox.period").fetchall():
            for parent in ("message", "attempt"):
                conn.execute("DROP TABLE outbox.%s_%s" % (parent, suffix))
        conn.execute("DELETE FROM outbox.period")
        send(db, "delivered %d" % round)
        settle(db, 1)
        send(db, "waits %d" % round)
        conn.execute("UPDATE outbox.queue SET due = now() + interval '1 h'")
        send(db, "secret", tenant_id=TENANT)
        settle(db, 1)
        past.purge(conn)
    aside = "SELECT count(*) FROM pg_class WHERE relname LIKE '%\\_aside\\_%' AND relkind = 'r'"
    assert conn.execute(aside).fetchone() == (4,)
    error = error_of(conn, "DELETE FROM outbox.attempt_kept")
    assert "append-only" in error.message_primary
    conn.execute("SELECT outbox.erase_tenant(%s)", (TENANT,))
    assert [row[0] for row in view(db, order="1")] == ["delivered 0", "delivered 1", "waits 0", "waits 1"]
    assert len(db.sql("SELECT * FROM outbox.attempts")) == 2
    conn.execute("SELECT outbox.configure('*', 'retention', '0')")
    past.purge(conn)
    assert [row[0] for row in view(db, order="1")] == ["waits 0", "waits 1"]
    conn.execute("UPDATE outbox.queue SET due = now()")
    assert db.sql("SELECT payload FROM outbox.claim('w') ORDER BY 1") == [("waits 0",), ("waits 1",)]
    db.sql("SELECT outbox.ack(array_agg(id), array_agg(attempts::bigint)) FROM outbox.queue")
    past.purge(conn)
    past.purge(conn)
    assert conn.execute(aside).fetchone() == (0,)


def test_a_dead_letter_keeps_no_other_attempts(db, conn):
    """Y7: attempts that were put aside leave when their time is over, though a dead letter of another time is kept."""
    for what in ("dead", "delivered"):
        for suffix, in conn.execute("SELECT suffix FROM outbox.period").fetchall():
            for parent in ("message", "attempt"):
                conn.execute("DROP TABLE outbox.%s_%s" % (parent, suffix))
        conn.execute("DELETE FROM outbox.period")
        send(db, what)
        settle(db, 3 if what == "dead" else 1)
        past.purge(conn)
    assert len(partitions(conn, "attempt_kept")) == 2
    past.purge(conn)
    assert len(db.sql("SELECT * FROM outbox.attempts")) == 2
    conn.execute("SELECT outbox.configure('*', 'retention', '0')")
    past.purge(conn)
    past.purge(conn)
    assert db.sql("SELECT outcome FROM outbox.attempts") == [("failed",)]
    assert len(partitions(conn, "attempt_kept")) == 1
    assert db.sql("SELECT count(*) FROM outbox.wrong_rights()") == [(0,)]
    db.sql("SELECT outbox.discard(before => now())")
    past.purge(conn)
    past.purge(conn)
    assert partitions(conn, "attempt_kept") == partitions(conn, "message_kept") == set()


def test_the_default_partition_is_cleaned_too(db, conn):
    """Y7 S1: what fell into it leaves when its time is over, but for what is wanted."""
    send(db, "delivered")
    settle(db, 1)
    past.age(conn, send(db, "waits"), 40)
    conn.execute("UPDATE outbox.queue SET due = now() + interval '1 h'")
    send(db, "dead", max_attempts=1)
    settle(db, 3)
    for status in ("delivered", "dead"):
        past.age(conn, conn.execute("SELECT id FROM outbox.messages WHERE status = %s", (status,)).fetchone()[0], 40)
    assert conn.execute("SELECT count(*) FROM outbox.message_default").fetchone() == (3,)
    past.purge(conn)
    assert view(db, order="2") == [("dead", "dead"), ("waits", "pending")]
    assert set(conn.execute("SELECT id FROM outbox.message_default").fetchall()) == set(db.sql("SELECT id FROM outbox.messages"))


# ---- old partitions --------------------------------------------------------------------------------------------------


class Old:
    """A period of ten days ago with a message in each state; ids by name."""

    def __init__(self, db, conn):
        self.suffix = past.make_period(conn, 10)
        self.ids = {}
        db.sql("SELECT outbox.configure('hold', 'on_dead', 'hold')")
        self.ids["delivered"] = send(db, "delivered", key="k", subject="s-delivered", dedupe_key="d-delivered",
                                     correlation_id="c")
        settle(db, 1, refs="receipt", codes="200")
        self.ids["dead"] = send(db, "dead", key="k", subject="s-dead", dedupe_key="d-dead")
        settle(db, 3, codes="bad", errors="refused")
        self.ids["discarded"] = send(db, "discarded")
        settle(db, 3)
        db.sql("SELECT outbox.discard(ids => %s)", [self.ids["discarded"]])
        self.ids["holding"] = send(db, "holding", namespace="hold", key="k")
        settle(db, 3)
        self.ids["retried"] = send(db, "retried", key="r", dedupe_key="d-retried", subject="s-retried")
        settle(db, 2, codes="busy", errors="later", delays=3600000000)
        self.ids["out"] = send(db, "out")
        db.sql("SELECT outbox.claim('w', 1, '1 h')")
        self.ids["waiting"] = send(db, "waiting", key="k", headers='{"h": "v"}')
        conn.execute("UPDATE outbox.queue SET due = now() + interval '1 h' WHERE id = %s", (self.ids["waiting"],))
        for name, message in self.ids.items():
            self.ids[name] = past.age(conn, message, 10)
        assert conn.execute("SELECT count(*) FROM outbox.message_%s" % self.suffix).fetchone() == (7,)
        assert conn.execute("SELECT count(*) FROM outbox.attempt_%s" % self.suffix).fetchone() == (5,)
        self.recent = send(db, "recent", key="k")
        db.sql("UPDATE outbox.queue SET due = now() + interval '2 h' WHERE id = %s", self.recent)


WANTED = ["dead", "holding", "out", "retried", "waiting"]


@pytest.fixture
def old(db, conn):
    return Old(db, conn)


def test_an_old_period_leaves(db, conn, old):
    """Y7 S1: its partitions are emptied and dropped; delivered and discarded messages are gone; undelivered and dead
    ones stay, as they were, with their attempts."""
    before = db.sql("SELECT * FROM outbox.messages WHERE payload #>> '{}' = ANY(%s) ORDER BY id", WANTED)
    attempts = db.sql("SELECT * FROM outbox.attempts a WHERE message_id = ANY(%s) ORDER BY 1",
                      [old.ids[n] for n in WANTED])
    steps = past.purge(conn)
    names = ["message_" + old.suffix, "attempt_" + old.suffix]
    assert [(action, detail) for action, detail, _ in steps if action in ("empty", "drop")] \
        == [("empty", names[0]), ("empty", names[1]), ("drop", names[1]), ("drop", names[0])]
    assert dict((detail, removed) for action, detail, removed in steps if action == "empty")[names[0]] == 2
    assert not set(names) & (partitions(conn, "message") | partitions(conn, "attempt"))
    assert conn.execute("SELECT count(*) FROM outbox.period WHERE suffix = %s", (old.suffix,)).fetchone() == (0,)
    assert [row[0] for row in view(db, order="1")] == sorted(WANTED + ["recent"])
    assert db.sql("SELECT * FROM outbox.messages WHERE payload #>> '{}' = ANY(%s) ORDER BY id", WANTED) == before
    assert len(attempts) == 4
    assert db.sql("SELECT * FROM outbox.attempts WHERE message_id = ANY(%s) ORDER BY 1",
                  [old.ids[n] for n in WANTED]) == attempts
    assert past.purge(conn) == [("done", "nothing is left to do", 0)]


def test_what_stays_lives_on(db, conn, old):
    """S1 S2 S6: undelivered messages of a dropped period are claimed, in order, retried, and their new attempts
    recorded beside the old ones; numbers go on."""
    past.purge(conn)
    conn.execute("UPDATE outbox.queue SET due = now() WHERE until IS NULL AND NOT held")
    conn.execute("UPDATE outbox.queue SET until = now() - interval '1 s' WHERE until IS NOT NULL")
    got = db.sql("SELECT payload #>> '{}', attempt, key, seq, headers FROM outbox.claim('w', 20) ORDER BY 1")
    assert got == [("out", 2, None, None, None), ("retried", 2, "r", 1, None), ("waiting", 1, "k", 3, {"h": "v"})], \
        "the recent one waits for its key's turn"
    db.sql("SELECT outbox.ack(array_agg(id), array_agg(attempts::bigint)) FROM outbox.queue WHERE until IS NOT NULL")
    assert db.sql("SELECT attempt_no, outcome, code FROM outbox.attempts WHERE message_id = %s ORDER BY 1",
                  old.ids["retried"]) \
        == [(1, "retry", "busy"), (2, "delivered", None)]
    assert db.sql("SELECT attempt_no, outcome FROM outbox.attempts WHERE message_id = %s ORDER BY 1", old.ids["out"]) \
        == [(1, "lost"), (2, "delivered")]
    assert db.sql("SELECT payload #>> '{}' FROM outbox.claim('w', 20)") == [("recent",)]


def test_what_was_delivered_late_is_kept_as_long(db, conn, old):
    """S1 S7: the record of what happened yesterday is kept from yesterday on, however old the message was."""
    past.purge(conn)
    conn.execute("UPDATE outbox.queue SET due = now() WHERE until IS NULL AND NOT held")
    assert db.sql("SELECT count(*) FROM outbox.claim('w', 20) c, LATERAL outbox.ack(ARRAY[c.id], ARRAY[c.token])") == [(2,)]
    assert past.purge(conn)[-1][2] == 0
    for name in ("retried", "waiting"):
        assert view(db, "status", "1") and db.sql("SELECT status FROM outbox.messages WHERE id = %s",
                                                  old.ids[name]) == [("delivered",)]
        assert db.sql("SELECT max(attempt_no) FROM outbox.attempts WHERE message_id = %s", old.ids[name])[0][0] >= 1
    # And when that is long ago too, it goes.
    conn.execute("SET session_replication_role = replica")
    for table in ("attempt", "attempt_kept"):
        conn.execute("UPDATE outbox.%s SET completed_at = completed_at - interval '9 days'" % table)
    conn.execute("RESET session_replication_role")
    past.purge(conn)
    assert db.sql("SELECT count(*) FROM outbox.messages WHERE id = ANY(%s)",
                  [old.ids["retried"], old.ids["waiting"]]) == [(0,)]


def test_delivered_late_before_the_partition_goes(db, conn):
    """S1 S7: the same when the partition is dropped after the late delivery."""
    suffix = past.make_period(conn, 10)
    late = send(db, "late")
    settle(db, 1, refs="receipt")
    late = past.age(conn, late, 10, settled_days=1)
    assert ("drop", "message_" + suffix, 0) in past.purge(conn)
    assert db.sql("SELECT status FROM outbox.messages WHERE id = %s", late) == [("delivered",)]
    assert db.sql("SELECT reference, topic FROM outbox.attempts WHERE message_id = %s", late) == [("receipt", "t")]


@pytest.mark.parametrize("name", ["dead", "holding"])
def test_dead_letters_retried_after_their_partition_is_gone(db, conn, old, name):
    """S1 M13: they come back whole from their dead letter, and can die and be retried again."""
    past.purge(conn)
    before = db.sql("SELECT key, seq, subject, payload, attempts, created_at FROM outbox.dead_letters WHERE id = %s",
                    old.ids[name])
    for life in (1, 2):
        assert db.sql("SELECT outbox.retry(ids => %s)", [old.ids[name]]) == [(1,)]
        assert past.purge(conn)[-1][0] == "done"
        got = db.sql("SELECT key, seq, subject, payload, attempt - 1 - %s, created_at, redriven FROM outbox.claim('w')",
                     life - 1)
        assert got == [before[0] + (True,)]
        db.sql("SELECT outbox.settle(ARRAY[id], ARRAY[attempts::bigint], '{3}') FROM outbox.queue WHERE id = %s",
               old.ids[name])
        assert db.sql("SELECT status, attempts FROM outbox.messages WHERE id = %s",
                      old.ids[name]) == [("dead", 1 + life)]
        past.purge(conn)
    assert db.sql("SELECT array_agg(attempt_no ORDER BY attempt_no) FROM outbox.attempts WHERE message_id = %s",
                  old.ids[name]) \
        == [([1, 2, 3],)]


def test_dedupe_survives(db, conn, old):
    """S4: the same dedupe key is the same message, long after the message is gone; no number is spent."""
    past.purge(conn)
    for name in ("delivered", "dead", "retried"):
        again = db.sql("SELECT id, created, seq FROM outbox.enqueue('t', '1', key => 'k', dedupe_key => %s)",
                       "d-" + name)
        assert again[0][:2] == (old.ids[name], False), name
        assert again[0][2] == {"delivered": 1, "dead": 2, "retried": 1}[name]
    assert db.sql("SELECT seq FROM outbox.enqueue('t', '1', key => 'k')") == [(5,)]


def test_attempts_kept_longer(db, conn, old):
    """S7: attempt_retention longer than retention: attempts stay, with topic, key, seq, subject and dedupe key of
    messages that are gone; when their time comes too, they go."""
    conn.execute("SELECT outbox.configure('*', 'attempt_retention', '30 days')")
    before = db.sql("SELECT * FROM outbox.attempts ORDER BY 1")
    steps = past.purge(conn)
    assert ("drop", "message_" + old.suffix, 0) in steps and ("drop", "attempt_" + old.suffix, 0) not in steps
    assert db.sql("SELECT * FROM outbox.attempts ORDER BY 1") == before
    row = db.sql("SELECT topic, key, seq, subject, dedupe_key, correlation_id, reference, code, outcome FROM "
                 "outbox.attempts WHERE message_id = %s", old.ids["delivered"])
    assert row == [("t", "k", 1, "s-delivered", "d-delivered", "c", "receipt", "200", "delivered")]
    assert db.sql("SELECT count(*) FROM outbox.messages WHERE id = %s", old.ids["delivered"]) == [(0,)]
    assert past.purge(conn) == [("done", "nothing is left to do", 0)]
    conn.execute("SELECT outbox.configure('*', 'attempt_retention', '8 days')")
    assert ("drop", "attempt_" + old.suffix, 0) in past.purge(conn)
    assert db.sql("SELECT count(*) FROM outbox.attempts WHERE message_id = %s", old.ids["delivered"]) == [(0,)]
    past.purge(conn)
    left = {row[0] for row in db.sql("SELECT id FROM outbox.archived")}
    assert old.ids["delivered"] not in left and old.ids["discarded"] not in left


@pytest.mark.parametrize("setting", ["retention", "attempt_retention"])
def test_forever(db, conn, old, setting):
    """S7: never delete, wherever the row lies."""
    conn.execute("SELECT outbox.configure('*', %s, 'forever')", (setting,))
    gone = send(db, "of no period")
    settle(db, 1)
    gone = past.age(conn, gone, 4000)
    before = db.sql("SELECT message_id, attempt_no, topic FROM outbox.attempts ORDER BY 1, 2")
    past.purge(conn)
    assert db.sql("SELECT message_id, attempt_no, topic FROM outbox.attempts ORDER BY 1, 2") == before
    there = db.sql("SELECT count(*) FROM outbox.messages WHERE id = ANY(%s)", [gone, old.ids["delivered"]])[0][0]
    assert there == (2 if setting == "retention" else 0)


def test_attempts_are_not_kept_shorter_than_messages(db, conn, old):
    """S7: without its attempts a delivered message would say that it was discarded."""
    conn.execute("SELECT outbox.configure('*', 'retention', '30 days')")
    conn.execute("SELECT outbox.configure('*', 'attempt_retention', '1 day')")
    past.purge(conn)
    assert db.sql("SELECT status FROM outbox.messages WHERE id = %s", old.ids["delivered"]) == [("delivered",)]
    assert db.sql("SELECT count(*) FROM outbox.attempts WHERE message_id = %s", old.ids["delivered"]) == [(1,)]


@pytest.mark.parametrize("value", ["-1 day", "soon", "", "-4000 years"])
@pytest.mark.parametrize("setting", ["retention", "attempt_retention", "partition_width"])
def test_senseless_settings(db, conn, setting, value):
    """S7: a time that is not one, or not before now, is refused; what would truncate today's messages is not set."""
    error = error_of(conn, "SELECT outbox.configure('*', %s, %s)", (setting, value))
    assert error.sqlstate == "OB001" and "interval" in error.message_hint
    assert conn.execute("SELECT retention::text, attempt_retention, partition_width::text FROM outbox.namespace WHERE "
                        "name = '*'").fetchone() \
        == ("7 days", None, "1 day")


def test_expired_messages_are_dead_letters_and_stay(db, conn):
    """N10 M12: what expired long ago, also in a partition that is gone, dies with its reason and is kept."""
    past.make_period(conn, 10)
    old = past.age(conn, send(db, "expired", expires_at="2001-01-01"), 10)
    past.purge(conn)
    assert db.sql("SELECT * FROM outbox.claim('w')") == []
    assert db.sql("SELECT id, reason, payload FROM outbox.dead_letters") == [(old, "expired", "expired")]
    past.purge(conn)
    assert db.sql("SELECT status FROM outbox.messages") == [("dead",)]


def test_erasing_reaches_what_was_kept(db, conn):
    """V14: a tenant's messages and attempts of dropped periods."""
    past.make_period(conn, 10)
    conn.execute("SELECT outbox.configure('*', 'attempt_retention', '30 days')")
    send(db, "a", tenant_id=TENANT, max_attempts=1)
    settle(db, 3)
    send(db, "b", tenant_id=TENANT)
    settle(db, 2)
    send(db, "c", tenant_id=TENANT)
    conn.execute("UPDATE outbox.queue SET due = now()")
    for message, in conn.execute("SELECT id FROM outbox.messages").fetchall():
        past.age(conn, message, 10)
    past.purge(conn)
    assert conn.execute("SELECT count(*) FROM outbox.message_kept").fetchone()[0] > 0
    conn.execute("SELECT outbox.erase_tenant(%s)", (TENANT,))
    for table in ("message", "message_kept", "attempt", "attempt_kept", "archived", "dead", "queue"):
        assert conn.execute("SELECT count(*) FROM outbox.%s" % table).fetchone() == (0,), table


def test_a_lone_dead_letter_pins_no_partition(db, conn):
    """S1: the partition is dropped; the letter and its attempts stay."""
    suffix = past.make_period(conn, 10)
    message = send(db, "dead")
    settle(db, 3)
    message = past.age(conn, message, 10)
    assert ("drop", "message_" + suffix, 0) in past.purge(conn)
    assert db.sql("SELECT id, payload FROM outbox.dead_letters") == [(message, "dead")]
    assert db.sql("SELECT count(*) FROM outbox.attempts WHERE message_id = %s", message) == [(1,)]
    # Once it is discarded, its attempts go with the next purge after their time.
    db.sql("SELECT outbox.discard(ids => %s)", [message])
    past.purge(conn)
    assert db.sql("SELECT count(*) FROM outbox.attempts") == [(0,)]


def test_who_may_purge(db, conn):
    """S5: relays and operators, with any tenant; none of them gains TRUNCATE."""
    crowd = people(db)
    for group in ("producer", "auditor", "tenant", "outsider"):
        with crowd.connect(group) as other:
            refused(other, "SELECT * FROM outbox.purge()")
    suffix = past.make_period(conn, 10)
    send(db, "waits", tenant_id=TENANT)
    past.age(conn, conn.execute("SELECT id FROM outbox.message").fetchone()[0], 10)
    for group in ("relay", "operator"):
        with crowd.connect(group, tenant=uuid.uuid4(), autocommit=True) as other:
            steps = past.purge(other)
            refused(other, "TRUNCATE outbox.message_default")
        if group == "relay":
            assert ("drop", "message_" + suffix, 0) in steps
    assert view(db) == [("waits", "pending")]


def test_a_death_at_a_claim_knows_kept_attempts(db):
    """M12 V9: a message that a claim finds without attempts left dies with the code and error of its last attempt, also where
    retention has put that aside."""
    db.sql("SELECT outbox.enqueue('t', '1')")
    token = db.sql("SELECT id, token FROM outbox.claim('w', 1)")[0]
    db.sql("SELECT * FROM outbox.nack(%s, %s, %s, %s, %s)", [token[0]], [token[1]], ["it is closed"], ["c503"], ["0 s"])
    with db.connect(autocommit=True) as conn:
        conn.execute("SET session_replication_role = replica")
        conn.execute("WITH moved AS (DELETE FROM outbox.attempt RETURNING *) INSERT INTO outbox.attempt_kept SELECT * FROM moved")
    assert db.sql("SELECT count(*) FROM outbox.claim('w', 1, max_attempts => 1)") == [(0,)]
    assert db.sql("SELECT reason, code, error FROM outbox.dead") == [("attempts", "c503", "it is closed")]
