"""Sentences of the documents that no transcript can show: who waits for whom, what fails with which SQLSTATE, and traps.

Proves: docs/sql.md, docs/worker.md and docs/retention.md (M1 M4 M5 M10 S2 S18 V14).
"""
import threading
import uuid

import psycopg
import pytest
from psycopg import IsolationLevel

from support import database

TENANT = "7a5e1f0c-0000-4000-8000-000000000001"


@pytest.fixture(scope="module")
def shared(pg_server, pg_template):
    db = database.create_database(pg_server, "statements", pg_template.name)
    yield db
    database.drop_database(db)


@pytest.fixture
def db(shared):
    """An empty outbox: emptying is far quicker than a new database, and the guards let replicas pass."""
    with shared.connect() as conn:
        conn.execute("SET LOCAL session_replication_role = replica")
        conn.execute("TRUNCATE outbox.message, outbox.message_kept, outbox.queue, outbox.attempt, outbox.attempt_kept, "
                     "outbox.archived, outbox.dead, outbox.dedupe, outbox.stream, outbox.lane, outbox.act")
    return shared


def enqueue(conn, topic="t", **arguments):
    names = "".join(", %s => %%(%s)s" % (name, name) for name in arguments)
    return conn.execute("SELECT * FROM outbox.enqueue(%%(topic)s, '{}'%s)" % names, {"topic": topic, **arguments}).fetchone()


class Behind(threading.Thread):
    """An enqueue on another connection, that waits for the first one's transaction. Keeps what came of it."""

    def __init__(self, conn, **arguments):
        super().__init__(daemon=True)
        self.conn, self.arguments, self.state, self.receipt = conn, arguments, None, None
        self.start()

    def run(self):
        try:
            self.receipt = enqueue(self.conn, **self.arguments)
        except psycopg.Error as error:
            self.state = error.sqlstate

    def waits(self, db):
        """Until the server says that it waits; false when it ended instead."""
        pid = self.conn.info.backend_pid
        while self.is_alive():
            if db.sql("SELECT wait_event_type = 'Lock' FROM pg_stat_activity WHERE pid = %s", pid) == [(True,)]:
                return True
            self.join(0.005)
        return False

    def end(self):
        self.join(30)
        assert not self.is_alive()
        return self.state or self.receipt


def two(db, isolation=None):
    """Two connections; the second has its snapshot already."""
    first, second = db.connect(), db.connect()
    second.isolation_level = isolation
    second.execute("SELECT count(*) FROM outbox.lane")
    return first, second


@pytest.mark.parametrize("how", [{"key": "k"}, {"dedupe_key": "d"}])
@pytest.mark.parametrize("isolation", [None, IsolationLevel.REPEATABLE_READ, IsolationLevel.SERIALIZABLE])
def test_the_same_key_waits_for_the_commit(db, how, isolation):
    """M4 S2: the second producer waits for the first; READ COMMITTED then goes on, the others meet 40001."""
    first, second = two(db, isolation)
    with first, second:
        receipt = enqueue(first, **how)
        behind = Behind(second, **how)
        assert behind.waits(db)
        first.commit()
        if isolation:
            assert behind.end() == "40001"
            second.rollback()
            assert enqueue(second, **how) is not None, "the transaction, run again"
        elif "key" in how:
            assert behind.end()[1:] == (True, receipt[2] + 1)
        else:
            assert behind.end() == (receipt[0], False, None)


@pytest.mark.parametrize("isolation", [IsolationLevel.REPEATABLE_READ, IsolationLevel.SERIALIZABLE])
@pytest.mark.parametrize("how", [{"key": "k"}, {"dedupe_key": "d"}])
def test_a_key_used_since_the_snapshot(db, how, isolation):
    """M4 S2: 40001 comes without any waiting too."""
    first, second = two(db, isolation)
    with first, second:
        enqueue(first, **how)
        first.commit()
        assert Behind(second, **how).end() == "40001"


@pytest.mark.parametrize("how", [{"key": "k"}, {"dedupe_key": "d"}, {"key": "k", "dedupe_key": "d"}])
def test_a_rollback_leaves_key_and_number_to_the_next(db, how):
    """M1 M4 S18: who waited for a transaction that rolled back is the first."""
    first, second = two(db)
    with first, second:
        receipt = enqueue(first, **how)
        behind = Behind(second, **how)
        assert behind.waits(db)
        first.rollback()
        assert behind.end()[1:] == (True, receipt[2]) and behind.receipt[0] != receipt[0]
        second.commit()
    assert db.sql("SELECT count(*) FROM outbox.messages") == [(1,)]


@pytest.mark.parametrize("isolation", [None, IsolationLevel.REPEATABLE_READ, IsolationLevel.SERIALIZABLE])
def test_without_keys_nobody_waits(db, isolation):
    """M1: not even for the first use of a topic."""
    first, second = two(db, isolation)
    with first, second:
        enqueue(first, "brand.new")
        assert Behind(second, topic="brand.new").end()[1] is True
        second.commit()
        first.commit()


def test_keys_in_another_order_deadlock(db):
    """S2: 40P01 for one of the two; the other goes on. enqueue_many sorts, and does not deadlock."""
    first, second = two(db)
    with first, second:
        enqueue(first, key="a")
        enqueue(second, key="b")
        behind = Behind(first, key="b")
        assert behind.waits(db)
        loser = Behind(second, key="a")
        ends = {str(loser.end()), str(behind.end())}
        assert "40P01" in ends and len(ends) == 2


def test_enqueue_many_in_any_order(db):
    """S2: the same two keys, given in another order, in one call each."""
    messages = '[{"topic": "t", "payload": 1, "key": "%s"}, {"topic": "t", "payload": 1, "key": "%s"}]'
    wrong = []

    def produce(order):
        with db.connect(autocommit=True) as conn:
            for _ in range(100):
                try:
                    conn.execute("SELECT * FROM outbox.enqueue_many(%s)", (messages % order,))
                except psycopg.Error as error:
                    wrong.append(error.sqlstate)

    threads = [threading.Thread(target=produce, args=(order,)) for order in [("a", "b"), ("b", "a")] * 2]
    [thread.start() for thread in threads]
    [thread.join() for thread in threads]
    assert wrong == []
    assert db.sql("SELECT key, max(seq), count(*) FROM outbox.messages GROUP BY key ORDER BY key") \
        == [("a", 400, 400), ("b", 400, 400)]


def test_a_lock_timeout(db):
    """S2: 55P03 for those who do not want to wait."""
    first, second = two(db)
    with first, second:
        enqueue(first, key="k")
        second.execute("SET LOCAL lock_timeout = '20ms'")
        assert Behind(second, key="k").end() == "55P03"


def test_a_star_calls_once_per_column(db):
    """M1: the trap that docs/sql.md warns of."""
    db.sql("SELECT (outbox.enqueue('t', '{}')).*")
    assert db.sql("SELECT count(*) FROM outbox.messages") == [(3,)]
    db.sql("SELECT * FROM outbox.enqueue('u', '{}')")
    db.sql("SELECT outbox.enqueue('u', '{}')")
    db.sql("SELECT (outbox.enqueue('u', '{}')).id")
    assert db.sql("SELECT count(*) FROM outbox.messages WHERE topic = 'u'") == [(3,)]


def test_a_join_calls_once_per_row_that_it_uses(db):
    """M1: and once for all where it uses none."""
    db.sql("SELECT 1 FROM generate_series(1, 5) i, outbox.enqueue('t', to_jsonb(i))")
    db.sql("SELECT 1 FROM generate_series(1, 5) i, outbox.enqueue('u', '{}')")
    assert db.sql("SELECT topic, count(*) FROM outbox.messages GROUP BY 1 ORDER BY 1") == [("t", 5), ("u", 1)]


STATES = [
    ("OB001", "SELECT outbox.enqueue('a b', '{}')"),
    ("OB002", "SET LOCAL app.current_tenant_id = '%s'; SELECT outbox.enqueue('t', '{}', tenant_id => gen_random_uuid())" % TENANT),
    ("OB003", "SELECT outbox.enqueue('t', '{}', tenant_id => '%s', dedupe_key => 'd')" % TENANT),
    ("OB006", "SELECT outbox.enqueue('t', to_jsonb(repeat('x', 2000000)))"),
    ("OB006", "SELECT outbox.enqueue('t', '1', headers => jsonb_build_object('a', repeat('x', 20000)))"),
    ("OB007", "SET TRANSACTION ISOLATION LEVEL SERIALIZABLE; SELECT * FROM outbox.claim('w')"),
    ("42883", "SELECT outbox.enqueue('t', '{}', dedup_key => 'd')"),
    ("42883", "SELECT outbox.enqueue('t'::varchar, '{}'::varchar)"),
    ("3F000", "SELECT nowhere.enqueue('t', '{}')"),
    ("22P02", "SELECT outbox.enqueue('t', 'no json')"),
    ("OB001", "SELECT * FROM outbox.enqueue_many('[{\"topic\": \"t\", \"payload\": 1, \"priority\": \"high\"}]')"),
    ("22P05", "SELECT outbox.enqueue('t', '\"\\u0000\"')"),
    ("22021", "SELECT outbox.enqueue(E'\\x80', '{}')"),
    ("25006", "SET TRANSACTION READ ONLY; SELECT outbox.enqueue('t', '{}')"),
]


@pytest.mark.parametrize("state, statement", STATES)
def test_the_table_of_errors(db, state, statement):
    """M5: and nothing is left of any of them."""
    with db.connect() as conn:
        with pytest.raises(psycopg.Error) as raised:
            conn.execute(statement)
        assert raised.value.sqlstate == state
        conn.rollback()
    assert db.sql("SELECT count(*) FROM outbox.messages") == [(0,)]


def test_prepare_transaction_while_a_relay_listens(db):
    """M5 S9: the doorbell rings for it, and then a transaction cannot be prepared."""
    with db.connect(autocommit=True) as listener, db.connect() as conn:
        listener.execute("SELECT pg_advisory_lock_shared(outbox.doorbell_class(), -1)")
        with pytest.raises(psycopg.Error) as raised:
            conn.execute("SELECT outbox.enqueue('t', '{}'); PREPARE TRANSACTION 'x'")
        assert raised.value.sqlstate == "0A000"


def test_after_an_error_the_transaction_is_lost(db):
    """M1: an order whose message was refused cannot commit by accident."""
    db.sql("CREATE TABLE orders (id int)")
    with db.connect() as conn:
        conn.execute("INSERT INTO orders VALUES (1)")
        with pytest.raises(psycopg.Error):
            conn.execute("SELECT outbox.enqueue('', '{}')")
        with pytest.raises(psycopg.errors.InFailedSqlTransaction):
            conn.execute("SELECT 1")
        conn.commit()
    assert db.sql("SELECT count(*) FROM orders") == [(0,)]


def test_a_late_ack(db):
    """M10: is good until somebody else claimed; extend makes an ended lease a lease again."""
    db.sql("SELECT outbox.enqueue('t', '{}')")
    (id_, token), = db.sql("SELECT id, token FROM outbox.claim('w', lease => '0.1 s')")
    with db.connect(autocommit=True) as conn:
        conn.execute("SELECT pg_sleep_until(locked_until) FROM outbox.messages")
    assert db.sql("SELECT result FROM outbox.extend(%s, %s, '0.1 s')", [id_], [token]) == [("ok",)]
    db.sql("SELECT pg_sleep_until(locked_until) FROM outbox.messages")
    assert db.sql("SELECT result FROM outbox.ack(%s, %s)", [id_], [token]) == [("ok",)]
    assert db.sql("SELECT result FROM outbox.ack(%s, %s)", [id_], [token]) == [("lost",)]
    assert db.sql("SELECT result FROM outbox.ack(%s, %s)", [uuid.uuid4()], [token]) == [("unknown",)]


def test_what_erasing_leaves(db):
    """V14: a tenant's dedupe keys go, a subject's stay; who has a message in hand is told that it is unknown."""
    key = TENANT + "/1"
    ask = "SELECT id, created FROM outbox.enqueue('t', '{}', tenant_id => %s, dedupe_key => %s, subject => 's')"
    (first, _), = db.sql(ask, TENANT, key)
    (id_, token), = db.sql("SELECT id, token FROM outbox.claim('w')")
    assert db.sql("SELECT outbox.erase_subject('default', 's')") == [(1,)]
    assert db.sql("SELECT result FROM outbox.ack(%s, %s)", [id_], [token]) == [("unknown",)]
    assert db.sql(ask, TENANT, key) == [(first, False)]
    assert db.sql("SELECT outbox.erase_tenant(%s)", TENANT) == [(0,)]
    assert db.sql(ask, TENANT, key)[0][1] is True


def test_the_trigger_of_the_tenants_table(db):
    """V14: deleting a tenant deletes its messages."""
    db.sql("""
        CREATE TABLE tenants (id uuid PRIMARY KEY);
        CREATE FUNCTION tenant_gone() RETURNS trigger LANGUAGE plpgsql SECURITY DEFINER SET search_path = public, pg_temp AS $$
        BEGIN PERFORM outbox.erase_tenant(old.id, reason => 'tenant deleted'); RETURN old; END $$;
        CREATE TRIGGER tenant_gone AFTER DELETE ON tenants FOR EACH ROW EXECUTE FUNCTION tenant_gone()""")
    db.sql("INSERT INTO tenants VALUES (%s)", TENANT)
    db.sql("SELECT outbox.enqueue('t', '{}', tenant_id => %s)", TENANT)
    db.sql("DELETE FROM tenants")
    assert db.sql("SELECT count(*) FROM outbox.messages") == [(0,)]
