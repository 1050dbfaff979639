"""The doorbell on a real server: each of its traps, one at a time and in a fixed order. The load is in tests/stress.

Proves: S9, N4.
"""
import os
import shutil
import signal
import threading

import psycopg
import pytest

from support import database
from support.doorbell import Bell, Pooler, eventually, locks

ENQUEUE = "select outbox.enqueue('t', '1')"


@pytest.fixture
def relay(db):
    """A relay that is asleep."""
    with Bell(db) as doorbell:
        doorbell.sleep()
        yield doorbell


@pytest.fixture
def hears(db):
    """Whether anybody rang since it was last asked."""
    with db.connect(autocommit=True) as conn:
        conn.execute("select pg_advisory_lock_shared(outbox.doorbell_class(), -1)")
        conn.execute("listen " + conn.execute("select outbox.doorbell_channel()").fetchone()[0])
        heard = []
        conn.add_notify_handler(heard.append)

        def ask():
            conn.execute("select 1")
            rang = bool(heard)
            heard.clear()
            return rang
        yield ask


def put(db):
    db.sql(ENQUEUE)


def open_producer(db):
    """A transaction that has enqueued and not committed."""
    conn = db.connect()
    conn.execute(ENQUEUE)
    return conn


# ---- asleep, busy, asleep again ----

def test_a_commit_wakes_who_sleeps(db, relay):
    """S9, N4"""
    put(db)
    look, state, _ = relay.wait(10000)
    assert (look, state) == ("rang", "calm")
    assert relay.wait(50)[0] == "not"


def test_nobody_rings_while_a_relay_is_busy(db, relay, hears):
    """S9, N4: commits of producers are not serialized by NOTIFY"""
    put(db)
    assert hears()
    relay.get_busy()
    assert locks(db, granted=True) == [relay.backend()]
    relay.claimed(100000)
    put(db)
    assert not hears()
    assert relay.wait(10000)[0] == "busy"
    relay.until("calm")
    assert locks(db, granted=True) == []
    put(db)
    assert hears()
    assert relay.wait(10000)[0] == "rang"


def test_looks_are_debounced_while_busy(db, relay):
    """S9: until the claim is answered; where messages come, the next look is not far."""
    relay.get_busy()
    relay.wait(1000)
    look, _, took = relay.wait(1000)
    assert look == "busy" and took >= 24
    fast = 0
    for _ in range(20):
        relay.claimed(100000)
        look, _, took = relay.wait(1000)
        assert look == "busy"
        fast += took < 24
    assert fast > 0


def test_asking_for_the_lock_is_enough(db, relay, hears):
    """N4: a ringer that does not commit keeps the lock from the relay; others are silent all the same."""
    producer = open_producer(db)
    relay.get_busy("asked")
    assert locks(db, granted=False) == [relay.backend()]
    put(db)
    assert not hears()
    relay.claimed(100000)
    producer.commit()
    assert hears()
    relay.until("held")
    producer.close()


def test_an_old_ringer_does_not_keep_a_calm_relay_in_the_queue(db, relay, hears):
    """N4: the ask is cancelled, and the doorbell rings again though the ringer is still there."""
    producer = open_producer(db)
    relay.get_busy("asked")
    relay.until("fencing")
    assert locks(db, granted=False) == []
    put(db)
    assert hears()
    producer.rollback()
    relay.until("calm")
    producer.close()


def test_producers_in_line_to_ring_make_a_relay_busy(own_pg_server):
    """N4: on a slow disk rings hold producers back so far that the rate of a busy relay is never reached. Here the disk is
    as slow as can be: a standby that never answers, for which the first ringer waits with the lock of NOTIFY."""
    db = database.create_database(own_pg_server, "doorbell")
    db.cli("migrate")
    db.sql("alter database doorbell set synchronous_commit = local")
    with Bell(db, window_ms=2000) as relay, db.connect() as first, db.connect() as second:
        relay.sleep()
        relay.claimed(300)  # 150 a second, and nobody in line
        assert relay.wait(100)[1] == "calm"
        wait_for_standby(db, "nobody")
        try:
            eventually(lambda: first.execute("show synchronous_standby_names").fetchone() == ("nobody",),
                       "the first knows of the standby")
            first.execute("set synchronous_commit = on")
            first.execute(ENQUEUE)
            second.execute(ENQUEUE)
            ringers = [threading.Thread(target=conn.commit) for conn in (first, second)]
            ringers[0].start()
            eventually(lambda: db.sql("select count(*) from pg_stat_activity where wait_event = 'SyncRep'") == [(1,)],
                       "the first waits with the lock")
            ringers[1].start()
            eventually(lambda: db.sql("select count(*) from pg_locks where locktype = 'object' and not granted")
                       == [(1,)], "the second stands in line")
            relay.claimed(300)
            relay.until("asked")
            put(db)  # this one does not ring, and so does not wait
        finally:
            wait_for_standby(db, "")
        for ringer in ringers:
            ringer.join()
        relay.claimed(300)
        relay.until("held")


def wait_for_standby(db, name):
    db.sql("alter system set synchronous_standby_names = '%s'" % name)
    db.sql("select pg_reload_conf()")
    eventually(lambda: db.sql("show synchronous_standby_names") == [(name,)], "the server has read its settings")


# ---- the fence ----

def test_a_silent_producer_that_commits_late_is_noticed(db, relay, hears):
    """S9, N4: it asked while the relay was busy, and commits when the relay would be asleep."""
    relay.get_busy()
    producer = open_producer(db)
    relay.until("fencing")
    for _ in range(4):  # it does not sleep: it looks by itself, more and more seldom
        look, state, _ = relay.wait(10000)
        assert (look, state) == ("fence", "fencing")
    producer.commit()
    assert not hears()
    assert relay.until("calm") == ["fence"]
    assert db.sql("select count(*) from outbox.message") == [(1,)]
    assert relay.wait(50)[0] == "not"
    producer.close()


def test_a_subtransaction_is_no_way_round_the_fence(db, relay):
    """S9, N4: the number of a savepoint is not the number of its transaction."""
    relay.get_busy()
    with db.connect() as producer:
        producer.execute("savepoint s")
        producer.execute(ENQUEUE)
        producer.execute("release savepoint s")
        relay.until("fencing")
        assert relay.wait(10000)[:2] == ("fence", "fencing")
        producer.commit()
    assert relay.until("calm") == ["fence"]


def test_rings_are_heard_at_the_fence(db):
    """S9: somebody's old transaction keeps the fence from passing; new messages ring."""
    with Bell(db, fallback_ms=60000) as relay:
        relay.sleep()
        with db.connect() as writer:
            writer.execute("create table t (a int)")
            relay.get_busy()
            relay.until("fencing")
            while True:  # until the next look by itself is far away
                if relay.wait(2000)[2] >= 500:
                    break
            put(db)
            look, state, took = relay.wait(10000)
            assert (look, state) == ("rang", "fencing")
            assert took < 5000


def test_busy_again_before_the_fence_passed(db, relay, hears):
    """N4"""
    relay.get_busy()
    producer = open_producer(db)
    relay.until("fencing")
    relay.get_busy("held")
    put(db)
    assert not hears()
    relay.until("fencing")
    producer.commit()
    producer.close()
    relay.until("calm")
    put(db)
    assert hears()


def test_a_cancelled_wait_that_was_granted_is_unlocked(db, relay, hears):
    """N4: the server grants the lock, and only then reads the cancel: the ask fails, and the lock is held all the same.
    Forgotten, it would silence everybody for good."""
    with db.connect(autocommit=True) as other:
        other.execute("select pg_advisory_lock(outbox.doorbell_class(), 0)")
        relay.get_busy("asked")
        backend = relay.backend()
        eventually(lambda: locks(db, granted=False) == [backend], "the relay waits for the lock")
        os.kill(backend, signal.SIGSTOP)
        try:
            other.execute("select pg_advisory_unlock(outbox.doorbell_class(), 0)")
            assert locks(db, granted=True) == [backend]  # while it has not noticed
            relay.until("calming")  # the cancel is sent
        finally:
            os.kill(backend, signal.SIGCONT)
    relay.until("calm")
    assert any("refused" in line and "job=ask" in line for line in relay.log), relay.log
    assert locks(db, granted=True) == []
    put(db)
    assert hears()
    assert relay.wait(10000)[0] == "rang"


# ---- two-phase commit ----

def test_a_prepared_transaction_of_a_session_that_does_not_ring(db, relay):
    """S9: NOTIFY and PREPARE TRANSACTION exclude each other, hence the switch; then the fallback poll finds it."""
    with db.connect(autocommit=True) as conn:
        with pytest.raises(psycopg.errors.FeatureNotSupported):
            conn.execute("begin")
            conn.execute(ENQUEUE)
            conn.execute("prepare transaction 'rings'")
        conn.execute("set outbox.doorbell = off")
        conn.execute("begin")
        conn.execute(ENQUEUE)
        conn.execute("prepare transaction 'silent'")
        conn.execute("commit prepared 'silent'")
    assert relay.wait(500)[0] == "not"
    assert db.sql("select count(*) from outbox.claim('w')") == [(1,)]


def test_a_prepared_transaction_holds_the_fence(db, relay):
    """S9, N4"""
    relay.get_busy()
    with db.connect(autocommit=True) as conn:
        conn.execute("begin")
        conn.execute(ENQUEUE)
        conn.execute("prepare transaction 'busy'")  # nobody rings, so it may
        relay.until("fencing")
        assert relay.wait(10000)[:2] == ("fence", "fencing")
        conn.execute("commit prepared 'busy'")
    assert relay.until("calm") == ["fence"]


# ---- many relays ----

def test_the_next_busy_relay_inherits(db, relay, hears):
    """N4: the lock says that somebody is busy, not who."""
    with Bell(db) as heir:
        relay.get_busy()
        holder = locks(db, granted=True)
        heir.sleep()
        heir.get_busy("asked")
        relay.kill()
        heir.claimed(100000)
        heir.until("held")
        assert locks(db, granted=True) not in ([], holder)
        put(db)
        assert not hears()
        heir.until("calm")
        put(db)
        assert hears()


def test_a_calm_relay_lets_the_busy_one_be(db, relay, hears):
    """N4"""
    with Bell(db, window_ms=2000) as busy:
        busy.sleep()
        relay.get_busy()
        busy.get_busy("asked")
        relay.until("calm")
        busy.until("held")
        put(db)
        assert not hears()


def test_a_dead_relay_leaves_no_silence(db, relay, hears):
    """N4: also one that died in the lock's queue"""
    with Bell(db) as other:
        other.sleep()
        relay.get_busy()
        other.get_busy("asked")
        other.kill()
        eventually(lambda: locks(db, granted=False) == [], "the server has noticed")
        relay.kill()
        eventually(lambda: locks(db, granted=True) == [], "the server has noticed")
    put(db)
    assert hears()


def test_nobody_rings_for_nobody(db):
    """N4: without a listener no commit pays for NOTIFY; who listens says so with a lock."""
    with db.connect(autocommit=True) as conn:
        conn.execute("listen " + conn.execute("select outbox.doorbell_channel()").fetchone()[0])
        heard = []
        conn.add_notify_handler(heard.append)
        put(db)
        conn.execute("select 1")
        assert heard == []
        conn.execute("select pg_advisory_lock_shared(outbox.doorbell_class(), -1)")
        put(db)
        conn.execute("select 1")
        assert len(heard) == 1
        with Bell(db) as relay:
            relay.sleep()
            conn.execute("select pg_advisory_unlock_shared(outbox.doorbell_class(), -1)")
            put(db)
            assert relay.wait(10000)[0] == "rang"
            relay.get_busy()
            relay.until("calm")  # its unlock has let go of that lock, too, and taken it again
            put(db)
            assert relay.wait(10000)[0] == "rang"


# ---- some topics only ----

def test_a_filtered_relay_never_holds_the_common_doorbell(db, relay, hears):
    """N4, M18: it would silence producers of topics that it does not serve."""
    for _ in range(3):
        relay.claimed(100000, full=True, filtered=True)
        relay.wait(20)
    assert relay.wait(1)[1] == "calm"
    put(db)
    assert hears()


def test_a_doorbell_of_its_own(db, hears):
    """N4, M18: topics of another doorbell are silenced by its holder, others are not; and everybody hears every doorbell."""
    db.sql("select outbox.assign_doorbell('default', 'mail', 3)")
    with Bell(db, doorbell=3) as mailer, Bell(db) as relay:
        mailer.sleep()
        relay.sleep()
        db.sql("select outbox.enqueue('mail', '1')")
        assert relay.wait(10000)[0] == "rang"
        assert mailer.wait(10000)[0] == "rang"
        mailer.claimed(100000, filtered=True)
        mailer.until("held")
        assert locks(db, granted=True, doorbell=3) and not locks(db, granted=True, doorbell=0)
        db.sql("select outbox.enqueue('mail', '1')")
        assert relay.wait(50)[0] == "not"
        put(db)
        assert hears()
        assert relay.wait(10000)[0] == "rang"


# ---- connections that break, freeze, or are not what they seem ----

def test_a_holder_shows_signs_of_life(db):
    """N4: the server ends a holder's session after three times beat_ms without one."""
    with Bell(db, beat_ms=200, window_ms=10000) as relay:
        relay.sleep()
        relay.get_busy()
        backend = relay.backend()
        for _ in range(60):
            assert relay.wait(1000)[1] == "held"  # 25 ms each: no claim is answered
        assert relay.backend() == backend
        assert locks(db, granted=True) == [backend]


def test_a_frozen_holder_loses_the_doorbell(db, hears):
    """N4"""
    with Bell(db, beat_ms=200) as relay:
        relay.sleep()
        relay.get_busy()
        relay.process.send_signal(signal.SIGSTOP)
        try:
            eventually(lambda: locks(db, granted=True) == [], "the server ended the session")
            put(db)
            assert hears()
        finally:
            relay.process.send_signal(signal.SIGCONT)
        looks = relay.until("calm")
        assert "unheard" in looks
        put(db)
        assert relay.wait(10000)[0] == "rang"
        assert [line for line in relay.log if "connected again" in line]


def test_a_lost_connection_is_looked_after(db, relay):
    """S9: who rang meanwhile was not heard, so there is a look at once, and one when it is connected again."""
    db.sql("select pg_terminate_backend(%s)", relay.backend())
    assert relay.wait(10000)[0] == "unheard"
    assert "fence" in relay.until("calm")
    put(db)
    assert relay.wait(10000)[0] == "rang"


def test_a_holder_that_lost_its_connection_owes_the_fence(db, relay):
    """S9, N4: producers were silent for it, so it may not sleep before they have ended."""
    relay.get_busy()
    producer = open_producer(db)
    db.sql("select pg_terminate_backend(%s)", relay.backend())
    relay.until("fencing")
    producer.commit()
    producer.close()
    assert relay.until("calm")[-1] == "fence"


def test_without_a_server_it_looks_by_itself(own_pg_server):
    """S9: the fallback poll alone drives everything; and when the server is back, the doorbell is too."""
    db = database.create_database(own_pg_server, "doorbell")
    db.cli("migrate")
    with Bell(db, fallback_ms=250) as relay:
        relay.sleep()
        own_pg_server.stop()
        assert relay.wait(10000)[0] == "unheard"
        for _ in range(3):
            look, _, took = relay.wait(10000)
            assert look == "fallback" and took < 5000
        own_pg_server.start()
        relay.until("calm")
        put(db)
        assert relay.wait(10000)[0] == "rang"
        assert len([line for line in relay.log if "doorbell disconnected" in line]) == 1


@pytest.mark.skipif(not shutil.which("pgbouncer", path=os.environ["PATH"] + ":/usr/sbin"), reason="no pgbouncer")
@pytest.mark.parametrize("mode", ["transaction", "session"])
def test_behind_a_pooler_it_polls_and_says_so(db, mode):
    """S9, N4: a session's LISTEN and locks would belong to somebody else."""
    with Pooler(db, mode) as pooler, Bell(db, pooler.conninfo(), fallback_ms=250) as relay:
        relay.until("polling")
        for _ in range(6):
            look, state, took = relay.wait(10000)
            assert (look, state) == ("fallback", "polling") and took < 5000
        relay.claimed(100000)
        assert relay.wait(1)[1] == "polling"
        assert len([line for line in relay.log if "pooler" in line and "level=warn" in line]) == 1
        assert db.sql("select count(*) from pg_locks where locktype = 'advisory'") == [(0,)]


def test_producers_may_use_a_pooler(db, relay):
    """N4: the try and the ring belong to their transaction."""
    if not shutil.which("pgbouncer", path=os.environ["PATH"] + ":/usr/sbin"):
        pytest.skip("no pgbouncer")
    with Pooler(db, "transaction") as pooler:
        with psycopg.connect(pooler.conninfo()) as conn:
            conn.execute(ENQUEUE)
        assert relay.wait(10000)[0] == "rang"


def test_a_missing_right_is_said(db):
    """S5: and what to grant"""
    db.sql("do $$ begin create role doorbell_stranger login; exception when duplicate_object then null; end $$")
    with Bell(db, db.conninfo("doorbell_stranger")) as relay:
        relay.tell("wait 10000")
        answer = relay.hear()
        assert answer.startswith("error") and 'GRANT "outbox_relay" TO "doorbell_stranger"' in answer


def test_a_missing_outbox_is_said(empty_db):
    """what to run"""
    with Bell(empty_db) as relay:
        relay.tell("wait 10000")
        answer = relay.hear()
        assert answer.startswith("error") and "outbox migrate" in answer
