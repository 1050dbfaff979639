"""Erasure: a tenant, or all messages about one domain object, leave without a trace, but for the act itself.

Proves: V14 S6 (how erasure passes the append-only guard) T4 (the act is on record) N2 (the rest of a key keeps its
order). """
import time
import uuid
from concurrent.futures import ThreadPoolExecutor

import pytest

from support.database import copy_rows
from support.roles import error_of, login_name, people, refused

ONE, TWO = uuid.UUID("11111111-1111-4111-8111-111111111111"), uuid.UUID("22222222-2222-4222-8222-222222222222")

TABLES = """SELECT relname FROM pg_class WHERE relnamespace = 'outbox'::regnamespace AND relkind = 'r'
             AND relname <> 'migration' ORDER BY 1"""


def holding(db, text):
    """How many rows of each table have a text in them."""
    with db.connect() as conn:
        found = {}
        for table, in conn.execute(TABLES).fetchall():
            count = conn.execute('SELECT count(*) FROM outbox."%s" t WHERE t::text LIKE %%s' % table,
                                 ("%" + text + "%",)).fetchone()[0]
            if count:
                found[table] = count
        return found


def enqueue(db, what, tenant, **more):
    names = ", ".join("%s => %%s" % name for name in more)
    return db.sql("SELECT id FROM outbox.enqueue('t', to_jsonb(%%s::text), tenant_id => %%s%s)" % (names and ", " + names),
                  what, tenant, *more.values())[0][0]


def settle(db, outcome):
    """Settles all that is due, in a session of its own. A retry comes in an hour."""
    return db.sql("SELECT s.id FROM (SELECT array_agg(id) AS ids, array_agg(token) AS tokens, array_agg(%s::int) AS "
                  "outcomes, array_agg(('error of ' || (payload #>> '{}'))) AS errors, array_agg(3600000000::bigint) "
                  "AS delays FROM outbox.claim('w')) c, LATERAL outbox.settle(ids, tokens, outcomes, errors, errors, "
                  "delays => delays) s WHERE ids IS NOT NULL", outcome)


def fill(db, tenant, marker):
    """Rows in every table that can hold any of a tenant's."""
    def send(what, **more):
        text = "%s %s" % (marker, what)
        return enqueue(db, text, tenant, subject=text, recipient=text, correlation_id=text,
                       dedupe_key="%s/%s" % (tenant, text), **more)

    send("delivered", key=marker)
    settle(db, 1)
    old = send("old", key=marker)
    settle(db, 2)
    send("redriven", max_attempts=1)
    settle(db, 3)
    db.sql("SELECT outbox.retry(tenant => %s)", tenant)
    send("dead")
    settle(db, 3)
    with db.connect() as conn:
        # What purge would leave behind of old messages.
        conn.execute("INSERT INTO outbox.archived SELECT id, created_at, tenant_id, seq, namespace, topic, key, "
                     "dedupe_key, subject, correlation_id FROM outbox.message WHERE id = %s", (old,))
        of_old = "id = '%s'" % old
        copy_rows(conn, "attempt", "attempt_kept", "message_" + of_old)
        copy_rows(conn, "message", "message_kept", of_old)
        conn.execute("DELETE FROM outbox.message WHERE id = %s", (old,))
        if tenant == ONE:
            past = conn.execute("SELECT outbox.uuid_at('2001-01-01')").fetchone()[0]
            copy_rows(conn, "message_kept", "message", of_old, id=past)
            copy_rows(conn, "attempt_kept", "attempt", "message_" + of_old, message_id=past)
    assert db.sql("SELECT count(*) FROM outbox.hook_failure WHERE tenant_id = %s", tenant)[0][0] > 0


@pytest.fixture
def filled(db):
    """Two tenants and rows of no tenant, with a hook that always fails."""
    db.sql("CREATE FUNCTION public.never(events jsonb) RETURNS void LANGUAGE plpgsql SECURITY DEFINER SET search_path "
           "= pg_catalog, pg_temp AS $$ BEGIN RAISE 'not now'; END $$")
    db.sql("SELECT outbox.hook('public.never(jsonb)')")
    fill(db, ONE, "marker-one")
    fill(db, TWO, "marker-two")
    enqueue(db, "of nobody", None, key="k")
    return db


def test_erasing_a_tenant_leaves_nothing(filled):
    """V14: not its uuid, nor its content, in any row of any table; others keep every row; what was done is on
    record."""
    everywhere = {"attempt_kept", "archived", "dead", "dedupe", "hook_failure", "message_kept", "queue", "stream",
                  "act",
                  "message_default", "attempt_default"}
    assert everywhere <= set(holding(filled, str(ONE))), "the test has rows everywhere"
    others, nobodys = holding(filled, str(TWO)), holding(filled, "of nobody")
    in_messages = filled.sql("SELECT count(*) FROM outbox.message WHERE tenant_id = %s", ONE)[0][0]
    with people(filled).connect("operator", autocommit=True) as conn:
        assert conn.execute("SELECT outbox.erase_tenant(%s, 'ann', 'contract ended')",
                            (ONE,)).fetchone()[0] >= in_messages
        assert conn.execute("SELECT current_setting('app.current_tenant_id', true)").fetchone()[0] in (None, "")
    assert holding(filled, "marker-one") == {}
    assert holding(filled, str(ONE)) == {"act": 1}, "only the act that says who was erased"
    assert holding(filled, str(TWO)) == others
    assert holding(filled, "of nobody") == nobodys
    act = filled.sql("SELECT actor, reason, tenant_id, detail FROM outbox.acts WHERE action = 'erase_tenant'")
    assert act[0][:3] == ("ann", "contract ended", None)
    assert act[0][3]["tenant"] == str(ONE) and act[0][3]["messages"] >= in_messages and act[0][3]["attempts"] > 0
    # The others go on.
    assert filled.sql("SELECT outbox.retry(tenant => %s)", TWO) == [(2,)]
    assert {row[0] for row in filled.sql("SELECT payload FROM outbox.claim('w', 9)")} \
        >= {"of nobody", "marker-two dead", "marker-two redriven"}


def test_an_erased_tenant_can_come_back(filled):
    """V14 S2: nothing of the past is in the way: a new sequence, and the old dedupe keys are free."""
    filled.sql("SELECT outbox.erase_tenant(%s)", ONE)
    again = filled.sql("SELECT created, seq FROM outbox.enqueue('t', '1', key => 'marker-one', tenant_id => %s, "
                       "dedupe_key => %s)",
                       ONE, "%s/marker-one delivered" % ONE)
    assert again == [(True, 1)]


def test_a_worker_whose_message_was_erased(db):
    """V14 M10: its settle changes nothing, and says so."""
    enqueue(db, "x", ONE, key="k")
    mine = db.sql("SELECT id, token FROM outbox.claim('w')")[0]
    db.sql("SELECT outbox.erase_tenant(%s)", ONE)
    assert db.sql("SELECT result FROM outbox.ack(%s, %s)", [mine[0]], [mine[1]]) == [("unknown",)]
    assert db.sql("SELECT count(*) FROM outbox.attempt") == [(0,)]


def test_who_may_erase(filled):
    """V14 S5 V1: an operator; not a relay, not a producer, and not for another tenant than the session's."""
    crowd = people(filled)
    for group in ("producer", "relay", "auditor", "tenant", "outsider"):
        with crowd.connect(group) as conn:
            refused(conn, "SELECT outbox.erase_tenant('%s')" % ONE)
            refused(conn, "SELECT outbox.erase_subject('default', 's')")
    before = holding(filled, "marker-one")
    with crowd.connect("operator", tenant=TWO, autocommit=True) as conn:
        assert error_of(conn, "SELECT outbox.erase_tenant(%s)", (ONE,)).sqlstate == "OB002"
        assert error_of(conn, "SELECT outbox.erase_tenant(NULL)").sqlstate == "OB001"
        assert conn.execute("SELECT outbox.erase_subject('default', 'marker-one delivered')").fetchone() == (0,)
        assert error_of(conn, "SELECT outbox.erase_subject('default', 's', %s)", (ONE,)).sqlstate == "OB002"
        assert holding(filled, "marker-one") == before
        conn.execute("SELECT outbox.erase_tenant(%s)", (TWO,))
        assert conn.execute("SELECT current_setting('app.current_tenant_id')").fetchone() == (str(TWO),)
    assert holding(filled, "marker-two") == {}


def test_from_an_applications_own_trigger(filled):
    """V14: deleting the application's row erases the tenant in the same transaction; rolled back, nothing happened. The
    person who deletes has no right on the outbox at all."""
    crowd = people(filled)
    owner = login_name("operator")
    filled.sql("CREATE SCHEMA app AUTHORIZATION %s" % owner)
    with filled.connect(user=owner, autocommit=True) as conn:
        conn.execute("CREATE TABLE app.tenants (id uuid PRIMARY KEY)")
        conn.execute("CREATE FUNCTION app.erase() RETURNS trigger LANGUAGE plpgsql SECURITY DEFINER SET search_path = "
                     "app, pg_temp AS $$ BEGIN PERFORM outbox.erase_tenant(OLD.id, 'the application', 'tenant "
                     "deleted'); RETURN OLD; END $$")
        conn.execute("CREATE TRIGGER erase AFTER DELETE ON app.tenants FOR EACH ROW EXECUTE FUNCTION app.erase()")
        conn.execute("INSERT INTO app.tenants VALUES (%s), (%s)", (ONE, TWO))
        conn.execute("GRANT USAGE ON SCHEMA app TO person_outsider; GRANT SELECT, DELETE ON app.tenants TO "
                     "person_outsider")
    before = holding(filled, "marker-one")
    with crowd.connect("outsider") as conn:
        conn.execute("DELETE FROM app.tenants WHERE id = %s", (ONE,))
        conn.rollback()
        assert holding(filled, "marker-one") == before
        conn.execute("DELETE FROM app.tenants WHERE id = %s", (ONE,))
        conn.commit()
    assert holding(filled, "marker-one") == {}
    assert holding(filled, "marker-two") != {}
    assert filled.sql("SELECT actor FROM outbox.acts WHERE action = 'erase_tenant'") == [("the application",)]


# ---- one domain object -----------------------------------------------------------------------------------------------


def drain(db):
    """Claims and acks until nothing comes any more; the payloads in order."""
    order = []
    for _ in range(50):
        got = db.sql("SELECT c.payload, a.result FROM outbox.claim('w') c, LATERAL outbox.ack(ARRAY[c.id], "
                     "ARRAY[c.token]) a")
        if not got:
            return order
        assert all(result == "ok" for _, result in got)
        order += [payload for payload, _ in got]
    raise AssertionError("no end")


def test_a_message_in_the_middle_of_a_key(db):
    """V14 N2: it is gone, those before and behind it keep their numbers and their order, and nothing stays blocked."""
    for n in range(1, 6):
        enqueue(db, str(n), None, key="k", subject="the third" if n == 3 else "other")
    assert db.sql("SELECT outbox.erase_subject('default', 'the third')") == [(1,)]
    assert holding(db, "the third") == {}
    assert db.sql("SELECT seq FROM outbox.messages ORDER BY seq") == [(1,), (2,), (4,), (5,)]
    assert drain(db) == ["1", "2", "4", "5"]
    assert db.sql("SELECT count(*) FROM outbox.queue") == [(0,)]
    assert db.sql("SELECT count(*) FROM outbox.dead_letters") == [(0,)], "an erased message does not come back as a dead one"
    assert db.sql("SELECT seq FROM outbox.enqueue('t', '\"6\"', key => 'k')") == [(6,)]
    assert drain(db) == ["6"]


@pytest.mark.parametrize("state", ["first", "parked", "out", "delayed", "dead", "holding", "delivered", "retried"])
def test_in_every_state(db, state):
    """V14: wherever the message is in its life, it leaves, and its key goes on."""
    if state == "holding":
        db.sql("SELECT outbox.configure('default', 'on_dead', 'hold')")
    more = {"deliver_after": "2100-01-01"} if state == "delayed" else {}
    enqueue(db, "0", None, key="k", subject="other")
    if state != "parked":
        assert drain(db) == ["0"]
    enqueue(db, "1", None, key="k", subject="gone", **more)
    enqueue(db, "2", None, key="k", subject="other")
    if state == "parked":
        assert len(db.sql("SELECT * FROM outbox.claim('w', 9, lease => '1 h')")) == 1
        db.sql("SELECT * FROM outbox.claim('w', 9)")
    elif state == "out":
        mine = db.sql("SELECT id, token FROM outbox.claim('w', 1)")[0]
    elif state in ("dead", "holding"):
        settle(db, 3)
    elif state == "delivered":
        settle(db, 1)
    elif state == "retried":
        db.sql("SELECT outbox.nack(ARRAY[id], ARRAY[token], ARRAY['no'], delays => ARRAY['1 h'::interval]) FROM "
               "outbox.claim('w', 1)")
    assert db.sql("SELECT outbox.erase_subject('default', 'gone', NULL, 'ann', 'asked')") == [(1,)]
    assert holding(db, "gone") == {}
    if state == "parked":
        zero = db.sql("SELECT id, attempts FROM outbox.queue WHERE until IS NOT NULL")[0]
        assert db.sql("SELECT result FROM outbox.ack(%s, %s)", [zero[0]], [zero[1]]) == [("ok",)]
    elif state == "out":
        assert drain(db) == []
        assert db.sql("SELECT result FROM outbox.nack(%s, %s, ARRAY['no'])", [mine[0]], [mine[1]]) == [("ok",)]
        db.sql("UPDATE outbox.queue SET due = now()")
    assert drain(db) == ["2"]
    assert db.sql("SELECT count(*) FROM outbox.queue") == [(0,)]
    assert db.sql("SELECT count(*) FROM outbox.dead_letters") == [(0,)]
    assert db.sql("SELECT actor, reason, detail ->> 'messages' FROM outbox.acts WHERE action = 'erase_subject'") == [("ann", "asked", "1")]


def test_only_that_subject_of_that_tenant(db):
    """V14 V1: another namespace's, another tenant's and another subject's messages stay."""
    gone = enqueue(db, "gone", ONE, subject="s")
    stays = {enqueue(db, "tenant", TWO, subject="s"), enqueue(db, "subject", ONE, subject="s2"),
             enqueue(db, "namespace", ONE, subject="s", namespace="n")}
    with people(db).connect("operator", tenant=ONE, autocommit=True) as conn:
        assert conn.execute("SELECT outbox.erase_subject('default', 's')").fetchone() == (1,)
    left = {row[0] for row in db.sql("SELECT id FROM outbox.messages")}
    assert left == stays and gone not in left


def test_failed_hook_events_go_too(db):
    """V14: the content that waits for a hook is content."""
    db.sql("CREATE FUNCTION public.never(events jsonb) RETURNS void LANGUAGE plpgsql SECURITY DEFINER SET search_path "
           "= pg_catalog, pg_temp AS $$ BEGIN RAISE 'not now'; END $$")
    db.sql("SELECT outbox.hook('public.never(jsonb)')")
    enqueue(db, "x", None, subject="gone", recipient="gone@example.org")
    enqueue(db, "y", None, subject="other")
    settle(db, 1)
    assert db.sql("SELECT count(*) FROM outbox.hook_failure") == [(2,)]
    db.sql("SELECT outbox.erase_subject('default', 'gone')")
    assert db.sql("SELECT event ->> 'subject' FROM outbox.hook_failure") == [("other",)]


@pytest.mark.parametrize("key", [None, "k"])
@pytest.mark.parametrize("act", ["settle", "retry"])
def test_it_waits_for_who_has_the_message(db, act, key):
    """V14: while a worker gives the message up, or an operator sends it again, it is erased when they are done."""
    enqueue(db, "x", None, subject="gone", **({"key": key} if key else {}))
    if act == "retry":
        settle(db, 3)
    with db.connect() as other, db.connect(autocommit=True) as conn, ThreadPoolExecutor() as pool:
        if act == "retry":
            assert other.execute("SELECT outbox.retry(before => now())").fetchone() == (1,)
        else:
            other.execute("SELECT outbox.settle(ARRAY[id], ARRAY[token], ARRAY[3]) FROM outbox.claim('w', 1)")
        erased = pool.submit(conn.execute, "SELECT outbox.erase_subject('default', 'gone')")
        time.sleep(0.3)
        assert not erased.done()
        other.commit()
        assert erased.result(30).fetchone() == (1,)
    assert holding(db, "gone") == {}
    assert drain(db) == []
