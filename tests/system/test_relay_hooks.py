"""Relays and outcome hooks: what a claim left is given soon, and a hook that goes wrong stops no relay.

Proves: Y4 V10 (outcomes flow back, the relay goes on).
"""
import pytest

from support.relay import Relay, wait_for
from support.roles import login_name, people

OWNER = login_name("operator")


@pytest.fixture
def app(db):
    people(db)
    db.sql("CREATE SCHEMA app AUTHORIZATION %s" % OWNER)
    db.sql("CREATE TABLE app.told (event text, subject text); GRANT USAGE ON SCHEMA app TO outbox_hooks", user=OWNER)

    def hook(body):
        db.sql("CREATE OR REPLACE FUNCTION app.hooked(events jsonb) RETURNS void LANGUAGE plpgsql SECURITY DEFINER SET "
               "search_path = app, pg_temp AS $$ BEGIN %s; INSERT INTO app.told SELECT e ->> 'event', e ->> 'subject' FROM "
               "jsonb_array_elements(events) e; END $$" % body, user=OWNER)
        db.sql("SELECT outbox.hook('app.hooked(jsonb)')", user=OWNER)
    db.hook = hook
    db.told = lambda: sorted(db.sql("SELECT event, subject FROM app.told"))
    return db


def relay_of(db, tmp_path, **more):
    return Relay(tmp_path, db.url(), sinks={"out": {"kind": "stub"}}, routes=[{"topic": "*", "sink": "out"}], **more)


def test_what_a_claim_left(app, tmp_path):
    """Y4: a message that is found expired by a claim: its hook is told by the relay's maintenance, within seconds."""
    app.hook("NULL")
    app.sql("SELECT outbox.enqueue('t', '1', subject => 'late', expires_at => '2001-01-01')")
    with relay_of(app, tmp_path).running():
        wait_for(lambda: app.told() == [("dead", "late")], what="the event")
    assert app.sql("SELECT count(*) FROM outbox.hook_failure") == [(0,)]


@pytest.mark.parametrize("body, told", [
    ("EXECUTE 'DEALLOCATE ALL'", None), ("PERFORM pg_sleep(60)", False),
    ("PERFORM set_config('row_security', 'off', false)", False), ("NULL", True)])
def test_the_relay_goes_on(app, tmp_path, body, told):
    """Y4 V10: statements of the relay that a hook removed are prepared again; a hook that takes too long is cancelled; a
    setting does not stay: every message is delivered once."""
    app.hook(body)
    relay = relay_of(app, tmp_path, relay={"lease": "3s"})
    with relay.running():
        for n in range(3):
            app.sql("SELECT outbox.enqueue('t', '1', subject => %s)", str(n))
            wait_for(lambda: app.sql("SELECT count(*) FROM outbox.messages WHERE status = 'delivered'") == [(n + 1,)],
                     what="delivery %d" % n)
    assert app.sql("SELECT outcome, count(*) FROM outbox.attempts GROUP BY 1") == [("delivered", 3)]
    if told is None:  # it removes nothing any more once the relay prepares nothing
        return
    assert app.told() == ([("delivered", str(n)) for n in range(3)] if told else [])
    assert app.sql("SELECT count(*) FROM outbox.hook_failure") == [(0 if told else 3,)]
