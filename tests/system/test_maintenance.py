"""Maintenance and operators beside each other and beside producers: nobody's snapshot is older than the lock that decides,
nobody waits for the other for long, no stranger can keep either out, and size does not stop them.

Proves: S1 V14 M13 T4 N4 V8.
"""
import uuid

import pytest

from support import past
from support.roles import error_of, people

from test_retention import send, settle
from test_retention_crowd import Background, purge_by_and_by, wait_until, waits_for_a_lock
from test_tenants_erase import holding

TENANT = uuid.UUID("11111111-1111-4111-8111-111111111111")


@pytest.fixture
def conn(db):
    with db.connect(autocommit=True) as conn:
        past.purge(conn)
        yield conn


# ---- the snapshot and the lock ---------------------------------------------------------------------------------------


@pytest.mark.parametrize("level", ["REPEATABLE READ", "SERIALIZABLE"])
def test_only_read_committed(db, conn, level):
    """S1: TRUNCATE heeds no snapshot, so a purge with an old one would empty a partition of what committed since. What
    decides after a lock must see what the lock waited for: all of them refuse other levels."""
    for call in ("purge()", "retry(before => now())", "discard(before => now())",
                 "erase_tenant('%s')" % TENANT, "erase_subject('default', 's')"):
        with db.connect() as other:
            other.execute("SET TRANSACTION ISOLATION LEVEL " + level)
            error = error_of(other, "SELECT outbox." + call)
            assert error.sqlstate == "OB007" and level in error.message_primary, call


def test_erasure_waits_for_a_producer_and_then_looks(db, conn):
    """V14: a producer of the tenant is in the middle of its transaction when the tenant is erased. Its commit makes the
    erasure go on, and all that it wrote goes too."""
    send(db, "secret first", key="k", tenant_id=TENANT)
    with db.connect() as producer:
        producer.execute("SELECT outbox.enqueue('t', '\"secret keyed\"', key => 'k', tenant_id => %s, dedupe_key => %s, "
                         "subject => 'secret')", (TENANT, "%s/secret" % TENANT))
        producer.execute("SELECT outbox.enqueue('t', '\"secret loose\"', tenant_id => %s)", (TENANT,))
        erasure = Background(db, lambda other: other.execute("SELECT outbox.erase_tenant(%s)", (TENANT,)).fetchone())
        wait_until(lambda: waits_for_a_lock(conn, erasure.pid))
        producer.commit()
        assert erasure.result() == (3,)
    assert holding(db, "secret") == {}
    assert set(holding(db, str(TENANT))) == {"act"}


def test_erasure_waits_for_a_worker_and_then_looks(db, conn):
    """V14: the same for a worker: the attempt, the dead letter and the hook's event that its settle wrote."""
    conn.execute("CREATE FUNCTION public.bad_hook(events jsonb) RETURNS void LANGUAGE plpgsql SECURITY DEFINER SET "
                 "search_path = public, pg_temp AS $$ BEGIN RAISE EXCEPTION 'no'; END $$")
    conn.execute("SELECT outbox.hook('public.bad_hook(jsonb)')")
    for what in ("dies", "delivered"):
        send(db, "secret " + what, tenant_id=TENANT, subject="secret")
    with db.connect() as worker:
        worker.execute("SELECT outbox.settle(array_agg(id), array_agg(token), array_agg(CASE WHEN payload::text LIKE "
                       "'%%dies%%' THEN 3 ELSE 1 END), errors => array_agg('secret'::text)) FROM outbox.claim('w')")
        erasure = Background(db, lambda other: other.execute("SELECT outbox.erase_tenant(%s)", (TENANT,)).fetchone())
        wait_until(lambda: waits_for_a_lock(conn, erasure.pid))
        worker.commit()
        erasure.result()
    assert holding(db, "secret") == {}
    assert set(holding(db, str(TENANT))) == {"act"}


def test_erasure_waits_for_a_retry_and_then_looks(db, conn):
    """V14: an operator's open retry puts a dead letter back into the queue: it does not stay there without content."""
    send(db, "secret", tenant_id=TENANT)
    settle(db, 3)
    with db.connect() as operator:
        operator.execute("SELECT outbox.retry(tenant => %s)", (TENANT,))
        erasure = Background(db, lambda other: other.execute("SELECT outbox.erase_tenant(%s)", (TENANT,)).fetchone())
        wait_until(lambda: waits_for_a_lock(conn, erasure.pid))
        operator.commit()
        erasure.result()
    assert set(holding(db, str(TENANT))) == {"act"}


# ---- who waits for whom ----------------------------------------------------------------------------------------------


def test_operators_do_not_wait_for_maintenance(db, conn):
    """T4 S1: a step of purge is open and stays so. Retry and discard of letters of the very period that it empties go on
    at once, and so does the erasure of another tenant's."""
    past.make_period(conn, 10)
    for what in ("again", "gone", "secret"):
        send(db, what, max_attempts=1, **({"tenant_id": TENANT} if what == "secret" else {}))
        settle(db, 3)
    ids = {payload: past.age(conn, message, 10)
           for message, payload in conn.execute("SELECT id, payload #>> '{}' FROM outbox.dead").fetchall()}
    while True:
        with db.connect() as purger:
            step = purger.execute("SELECT action FROM outbox.purge()").fetchone()[0]
            with db.connect(autocommit=True) as operator:
                operator.execute("SET lock_timeout = '1s'")
                if step == "keep" and "again" in ids:
                    assert operator.execute("SELECT outbox.retry(ids => %s)", ([ids.pop("again")],)).fetchone() == (1,)
                    assert operator.execute("SELECT outbox.discard(ids => %s)", ([ids.pop("gone")],)).fetchone() == (1,)
            purger.commit()
        if step == "done":
            break
    assert set(ids) == {"secret"}
    assert db.sql("SELECT payload, redriven FROM outbox.claim('w')") == [("again", True)]


def test_a_stranger_holds_advisory_locks(db, conn):
    """V8: anybody who can log in can take any advisory lock. None of them stops purge, retry or discard."""
    send(db, "dead")
    settle(db, 3)
    crowd = people(db)
    with crowd.connect("outsider", autocommit=True) as stranger:
        for table in ("period", "queue", "maintenance", "message"):
            stranger.execute("SELECT pg_advisory_lock(c.oid::bigint), pg_advisory_lock(c.oid::bigint::bit(32)::int, 0) FROM "
                             "pg_class c JOIN pg_namespace n ON n.oid = c.relnamespace WHERE n.nspname = 'outbox' AND "
                             "c.relname = %s", (table,))
        assert past.purge(conn) == [("done", "nothing is left to do", 0)]
        conn.execute("SET lock_timeout = '1s'")
        assert conn.execute("SELECT outbox.retry(before => now())").fetchone() == (1,)
    with db.connect() as first, db.connect() as second:
        first.execute("SELECT outbox.purge()")
        assert second.execute("SELECT action FROM outbox.purge()").fetchone() == ("busy",)


# ---- size ------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("act", ["retry", "discard"])
def test_dead_letters_of_more_than_a_gigabyte(db, conn, act):
    """M13: no value in PostgreSQL is larger than 1 GiB, but what an operator acts on may be."""
    send(db, "x", key="k")
    settle(db, 3)
    conn.execute("INSERT INTO outbox.dead SELECT (jsonb_populate_record(d, jsonb_build_object('id', "
                 "gen_random_uuid()))).* FROM outbox.dead d, generate_series(1, 299)")
    conn.execute("UPDATE outbox.dead SET body = convert_to(repeat('x', 4000000), 'UTF8'), payload = NULL, content_type = "
                 "'text/plain'")
    assert conn.execute("SELECT sum(octet_length(body)) > 1.05 * 1024^3 FROM outbox.dead").fetchone() == (True,)
    assert conn.execute("SELECT outbox.%s(before => now())" % act).fetchone() == (300,)
    assert conn.execute("SELECT count(*) FROM outbox.dead").fetchone() == (0,)
    assert conn.execute("SELECT count(*) FROM outbox.acts WHERE action = %s", (act,)).fetchone() == (300,)
