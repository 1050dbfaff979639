"""Outcome hooks: an application's function runs in the transaction that records an outcome, with its owner's rights.

Proves: Y4 V18 (a terminal update touches what it must).
"""
import json
import os
import re
import uuid

import pytest

from support.database import ROOT
from support.roles import attempt, error_of, login_name, people, refused

TENANT = uuid.UUID("11111111-1111-4111-8111-111111111111")
OWNER = login_name("operator")


class App:
    """An application's schema, owned by a real login role, with a hook that writes down what it is told."""

    def __init__(self, db):
        self.db = db
        people(db)
        db.sql("CREATE SCHEMA app AUTHORIZATION %s" % OWNER)
        self.run("CREATE TABLE app.told (n int GENERATED ALWAYS AS IDENTITY, events jsonb, who text)")
        self.run("CREATE TABLE app.node (id text PRIMARY KEY, state text NOT NULL, output jsonb)")
        self.run("CREATE TABLE app.gate (a int)")
        self.run("GRANT USAGE ON SCHEMA app TO outbox_hooks")
        self.function("on_outcome", "INSERT INTO app.told (events, who) VALUES (events, current_user)")

    def run(self, text, *params):
        return self.db.sql(text, *params, user=OWNER)

    def function(self, name, body):
        self.run("CREATE OR REPLACE FUNCTION app.%s(events jsonb) RETURNS void LANGUAGE plpgsql SECURITY DEFINER SET "
                 "search_path = app, pg_temp AS $$ BEGIN %s; END $$" % (name, body))

    def hook(self, name="on_outcome", **filter):
        given = "".join(", %s => '%s'" % pair for pair in filter.items())
        return self.run("SELECT outbox.hook('app.%s(jsonb)'%s)" % (name, given))[0][0]

    def told(self):
        """What the hook was told, call by call."""
        return [row[0] for row in self.run("SELECT events FROM app.told ORDER BY n")]

    def failures(self):
        return self.run("SELECT event ->> 'subject', error, tries FROM outbox.hook_failure ORDER BY id")

    def send(self, subject, **more):
        names = "".join(", %s => %%s" % name for name in more)
        return self.db.sql("SELECT id FROM outbox.enqueue('t', '1', subject => %%s%s)" % names, subject,
                           *more.values())[0][0]

    def settle(self, outcome, connection=None, **arrays):
        """Claims what is due in a session of its own and settles all of it alike."""
        claimed = self.db.sql("SELECT id, token FROM outbox.claim('w', 1000)")
        ids, tokens = [row[0] for row in claimed], [row[1] for row in claimed]
        names = "".join(", %s => %%s" % name for name in arrays)
        values = [[json.dumps(value) if isinstance(value, (dict, list)) else value] * len(ids) for value in arrays.values()]
        statement = "SELECT result FROM outbox.settle(%%s, %%s, %%s%s)" % names.replace("outputs => %s",
                                                                                        "outputs => %s::jsonb[]")
        params = (ids, tokens, [outcome] * len(ids), *values)
        if connection:
            return [row[0] for row in connection.execute(statement, params)]
        return [row[0] for row in self.db.sql(statement, *params)]


@pytest.fixture
def app(db):
    return App(db)


# ---- what a hook is told ---------------------------------------------------------------------------------------------


def test_every_event(app):
    """Y4: retry, dead, redriven, delivered and discarded, each once, with the message, the attempt and the sink's
    words."""
    app.hook()
    message = str(app.send("node-1", tenant_id=TENANT, key="k", dedupe_key="%s/d" % TENANT, recipient="bob", correlation_id="c",
                           max_attempts=2))
    assert app.settle(2, codes="busy", errors="try later", delays=0) == ["ok"]
    assert app.settle(2, codes="gone", errors="no such place") == ["ok"]
    app.run("SELECT outbox.retry(topic => 't')")
    assert app.settle(1, refs="receipt-7", outputs={"rows": [1, None], "nothing": None}, codes="202") == ["ok"]
    other = str(app.send("node-2"))
    assert app.settle(3, codes="bad", errors="refused") == ["ok"]
    app.run("SELECT outbox.discard(topic => 't')")

    told = app.told()
    assert [len(events) for events in told] == [1] * 6
    for events in told:
        assert events[0].pop("at").startswith("20")
    of_message = {"id": message, "namespace": "default", "topic": "t", "tenant_id": str(TENANT), "key": "k", "seq": 1,
                  "subject": "node-1", "recipient": "bob", "correlation_id": "c", "dedupe_key": "%s/d" % TENANT}
    of_other = {"id": other, "namespace": "default", "topic": "t", "subject": "node-2"}
    assert [events[0] for events in told] == [
        {**of_message, "event": "retry", "attempt": 1, "outcome": 2, "code": "busy", "error": "try later"},
        {**of_message, "event": "dead", "attempt": 2, "outcome": 3, "code": "gone", "error": "no such place",
         "reason": "attempts"},
        {**of_message, "event": "redriven", "attempt": 2, "outcome": 3, "code": "gone", "error": "no such place"},
        {**of_message, "event": "delivered", "attempt": 3, "outcome": 1, "code": "202", "reference": "receipt-7",
         "output": {"rows": [1, None], "nothing": None}},
        {**of_other, "event": "dead", "attempt": 1, "outcome": 3, "code": "bad", "error": "refused",
         "reason": "terminal"},
        {**of_other, "event": "discarded", "attempt": 1, "outcome": 3, "code": "bad", "error": "refused",
         "reason": "terminal"},
    ]
    assert app.failures() == []


def test_one_ugly_output_spoils_no_other(app):
    """Y4 S7: of outcomes settled together one sink returned no JSON, and one what is too large a number. Those are told as
    texts; the others as the JSON they are. By the statement that the store sends."""
    app.hook()
    outputs = ['{"rows": 1}', "no json", '[1, "\u03b5"]', "1e999999", '{"a": "\\u0000"}', "null"]
    for i in range(len(outputs)):
        app.send("node-%d" % i)
    claimed = app.db.sql("SELECT id, token FROM outbox.claim('w') ORDER BY id")
    with open(os.path.join(ROOT, "sql", "postgres", "stmt", "settle.sql")) as file:
        statement = re.sub("--.*", "", file.read()).replace("@schema@", "outbox")
    app.db.sql(re.sub(r"\$(\d+)", lambda match: {"1": "%s", "2": "%s", "3": "%s", "7": "%s"}.get(match[1], "NULL"), statement),
               [row[0] for row in claimed], [row[1] for row in claimed], [1] * len(claimed), outputs)
    told = {event["subject"]: event.get("output") for event in app.told()[0]}
    assert [told["node-%d" % i] for i in range(len(outputs))] \
        == [{"rows": 1}, "no json", [1, "\u03b5"], "1e999999", '{"a": "\\u0000"}', None]


def test_deaths_that_a_claim_finds(app):
    """Y4 M8 N10: expired, and lost for the last time: the hook is told soon after the claim that finds them, and not by
    the claim itself."""
    app.hook()
    app.send("expired", expires_at="2001-01-01")
    app.send("lost", max_attempts=1)
    assert len(app.db.sql("SELECT * FROM outbox.claim('vanishes', lease => '0.1 s')")) == 1
    app.db.sql("UPDATE outbox.queue SET until = now() - interval '1 s'")
    assert app.db.sql("SELECT * FROM outbox.claim('w')") == []
    assert app.told() == [] and app.db.sql("SELECT outbox.run_failed_hooks(due_only => true)") == [(2,)]
    events = {event["subject"]: event for call in app.told() for event in call}
    assert {name: (event["event"], event["reason"]) for name, event in events.items()} \
        == {"expired": ("dead", "expired"), "lost": ("dead", "attempts")}
    assert events["lost"]["code"] == "lease_expired" and events["lost"]["attempt"] == 1
    assert "attempt" not in events["expired"]


def test_unspent_outcomes_tell_nobody(app):
    """Y4: limited, blocked and released change nothing for the domain."""
    app.hook()
    app.send("s")
    for outcome in (5, 6, 8):
        assert app.settle(outcome, delays=0) == ["ok"]
    assert app.told() == []


@pytest.mark.parametrize("filter, wanted", [
    ({}, ["a", "b", "c"]), ({"namespace": "n"}, ["b", "c"]), ({"namespace": "n", "topic": "u"}, ["c"]),
    ({"topic": "t"}, ["a", "b"]), ({"namespace": "other"}, [])])
def test_filters(app, filter, wanted):
    """Y4 M2: a hook is for a namespace, a topic, or all."""
    app.hook(**filter)
    app.send("a")
    app.send("b", namespace="n")
    app.db.sql("SELECT outbox.enqueue('u', '1', namespace => 'n', subject => 'c')")
    app.settle(1)
    assert sorted(event["subject"] for call in app.told() for event in call) == wanted


def test_a_batch_is_one_call(app):
    """Y4: 500 outcomes are one call with 500 events, and a mixed batch one call per kind."""
    app.hook()
    app.db.sql("SELECT outbox.enqueue('t', to_jsonb(n), subject => n::text) FROM generate_series(1, 500) n")
    assert app.settle(1) == ["ok"] * 500
    events, = app.told()
    assert {event["subject"] for event in events} == {str(n) for n in range(1, 501)}
    assert {event["event"] for event in events} == {"delivered"}
    app.db.sql("SELECT outbox.enqueue('t', to_jsonb(n), subject => n::text, max_attempts => 1 + n % 2) FROM "
               "generate_series(0, 8) n")
    claimed = app.db.sql("SELECT id, token, subject FROM outbox.claim('w')")
    outcomes = [[1, 2, 3][int(row[2]) // 3] for row in claimed]
    app.db.sql("SELECT outbox.settle(%s, %s, %s)", [row[0] for row in claimed], [row[1] for row in claimed], outcomes)
    kinds = {call[0]["event"]: sorted(event["subject"] for event in call) for call in app.told()[1:]}
    assert len(app.told()) == 4
    assert kinds == {"delivered": ["0", "1", "2"], "retry": ["3", "5"], "dead": ["4", "6", "7", "8"]}


# ---- the same transaction --------------------------------------------------------------------------------------------


def test_it_shares_the_fate_of_the_outcome(app):
    """Y4: the settle rolls back, and so does the hook; it commits, and both are there at the same moment."""
    app.hook()
    app.send("s")
    with app.db.connect() as conn:
        assert app.settle(1, connection=conn) == ["ok"]
        assert app.told() == [], "not before the commit"
        conn.rollback()
    assert app.told() == [] and app.failures() == []
    assert app.db.sql("SELECT status FROM outbox.messages") == [("processing",)]
    app.db.sql("UPDATE outbox.queue SET until = now() - interval '1 s'")
    with app.db.connect() as conn:
        app.settle(1, connection=conn)
        conn.commit()
    assert len(app.told()) == 1
    assert app.db.sql("SELECT status FROM outbox.messages") == [("delivered",)]


def test_the_domain_follows(app):
    """Y4 V18: the example of the documents: nodes become success or error with the sink's output, in one statement per
    batch."""
    app.run("INSERT INTO app.node VALUES ('n1', 'accepted'), ('n2', 'accepted'), ('n3', 'accepted')")
    app.function("on_node", "UPDATE app.node n SET state = CASE e ->> 'event' WHEN 'delivered' THEN 'success' WHEN "
                            "'dead' THEN 'error' WHEN 'redriven' THEN 'retrying' ELSE n.state END, output = coalesce(e "
                            "-> 'output', n.output) FROM jsonb_array_elements(events) e WHERE n.id = e ->> 'subject'")
    app.hook("on_node", namespace="workflow")
    for name in ("n1", "n2"):
        app.send(name, namespace="workflow")
    claimed = app.db.sql("SELECT id, token, subject FROM outbox.claim('w') ORDER BY subject")
    app.db.sql("SELECT outbox.settle(%s, %s, '{1,3}', outputs => ARRAY['{\"sent\": 1}', NULL]::jsonb[])",
               [row[0] for row in claimed], [row[1] for row in claimed])
    assert app.run("SELECT id, state, output FROM app.node ORDER BY id") \
        == [("n1", "success", {"sent": 1}), ("n2", "error", None), ("n3", "accepted", None)]
    app.run("SELECT outbox.retry(namespace => 'workflow')")
    assert app.run("SELECT state FROM app.node WHERE id = 'n2'") == [("retrying",)]
    app.settle(1, outputs={"sent": 2})
    assert app.run("SELECT state, output FROM app.node WHERE id = 'n2'") == [("success", {"sent": 2})]


def test_it_runs_as_its_owner(app):
    """Y4: whoever settles: a relay, an operator, a superuser."""
    app.hook()
    people_ = people(app.db)
    app.send("s")
    with people_.connect("relay", autocommit=True) as conn:
        assert app.settle(1, connection=conn) == ["ok"]
    app.send("s")
    app.settle(1)
    assert app.run("SELECT DISTINCT who FROM app.told") == [(OWNER,)]


def test_it_may_send_on(app):
    """Y4 M1: a hook whose owner may enqueue starts the next step in the same transaction."""
    app.db.sql("GRANT outbox_producer TO %s" % OWNER)
    try:
        app.function("on_outcome", "PERFORM outbox.enqueue('next', e -> 'subject') FROM jsonb_array_elements(events) e "
                                   "WHERE e ->> 'topic' = 't'")
        app.hook()
        app.send("s")
        app.settle(1)
        assert app.db.sql("SELECT payload FROM outbox.claim('w', topics => '{next}')") == [("s",)]
        assert app.failures() == []
    finally:
        app.db.sql("REVOKE outbox_producer FROM %s" % OWNER)


# ---- registering -----------------------------------------------------------------------------------------------------


def refusals(app):
    app.run("CREATE FUNCTION app.two(jsonb, int) RETURNS void LANGUAGE sql SECURITY DEFINER SET search_path = app AS "
            "'SELECT'")
    app.run("CREATE FUNCTION app.words(text) RETURNS void LANGUAGE sql SECURITY DEFINER SET search_path = app AS "
            "'SELECT'")
    app.run("CREATE FUNCTION app.invoker(jsonb) RETURNS void LANGUAGE sql SET search_path = app AS 'SELECT'")
    app.run("CREATE FUNCTION app.no_path(jsonb) RETURNS void LANGUAGE sql SECURITY DEFINER AS 'SELECT'")
    app.run("CREATE FUNCTION app.closed(jsonb) RETURNS void LANGUAGE sql SECURITY DEFINER SET search_path = app AS "
            "'SELECT'")
    app.run("REVOKE ALL ON FUNCTION app.closed(jsonb) FROM PUBLIC")
    app.run("CREATE PROCEDURE app.proc(jsonb) LANGUAGE sql SECURITY DEFINER SET search_path = app AS 'SELECT'")
    app.db.sql("CREATE SCHEMA shut AUTHORIZATION %s" % OWNER)
    app.run("CREATE FUNCTION shut.fine(jsonb) RETURNS void LANGUAGE sql SECURITY DEFINER SET search_path = shut AS "
            "'SELECT'")
    app.db.sql("CREATE FUNCTION app.anothers(jsonb) RETURNS void LANGUAGE sql SECURITY DEFINER SET search_path = app "
               "AS 'SELECT'")
    return [("app.two(jsonb, int)", "OB001", "create function"), ("app.words(text)", "OB001", "create function"),
            ("app.proc(jsonb)", "OB001", "create function"), ("app.invoker(jsonb)", "OB001", "security definer"),
            ("app.no_path(jsonb)", "OB001", "search_path"), ("app.closed(jsonb)", "42501",
                                                             "grant execute on function app.closed"),
            ("shut.fine(jsonb)", "42501", "grant usage on schema shut"), ("app.anothers(jsonb)", "42501", "owner")]


def test_refused_registrations(app):
    """Y4: each says what is wrong and what to do, and the hint of a missing grant can be run."""
    with app.db.connect(user=OWNER, autocommit=True) as conn:
        for function, code, hint in refusals(app):
            error = error_of(conn, "SELECT outbox.hook(%s)", (function,))
            assert error.sqlstate == code, function
            assert hint in error.message_hint, function
            if "grant" in hint:
                conn.execute(error.message_hint)
                conn.execute("SELECT outbox.hook(%s)", (function,))
                conn.execute("SELECT outbox.unhook(max(id)) FROM outbox.hook")
        error = error_of(conn, "SELECT outbox.hook(NULL)")
        assert error.sqlstate == "OB001" and error.message_hint
        assert error_of(conn, "SELECT outbox.hook('app.nothing(jsonb)')").sqlstate == "42883"
    assert app.db.sql("SELECT count(*) FROM outbox.hook") == [(0,)]


def test_registering_is_on_record(app):
    """Y4 T4: who hooked what, and who took it away."""
    number = app.hook(namespace="n")
    assert app.hook(namespace="n") == number, "registered again it is the same hook"
    assert app.run("SELECT registrant, namespace, function_name FROM outbox.hook") == [(OWNER, "n", "on_outcome")]
    assert app.run("SELECT outbox.unhook(%s)", number) == [(True,)]
    assert app.run("SELECT outbox.unhook(%s)", number) == [(False,)]
    assert app.run("SELECT actor, action, detail ->> 'function' FROM outbox.acts ORDER BY id") \
        == [(OWNER, "hook", "app.on_outcome(jsonb)"), (OWNER, "unhook", "app.on_outcome")]
    app.send("s")
    app.settle(1)
    assert app.told() == []


# ---- failing ---------------------------------------------------------------------------------------------------------

FAULTS = {
    "raises": ("RAISE 'not today'", "P0001"),
    "divides by zero": ("PERFORM 1 / 0", "22012"),
    "asserts": ("ASSERT false, 'never true'", "P0004"),
    "lacks a right": ("PERFORM 1 FROM pg_authid", "42501"),
    "lacks a table": ("INSERT INTO app.nowhere VALUES (1)", "42P01"),
    "breaks a deferred constraint": ("INSERT INTO app.child VALUES (1)", "23503"),
    "commits": ("COMMIT", "2D000"),
}


@pytest.mark.parametrize("fault", FAULTS)
@pytest.mark.parametrize("outcome, status", [(1, "delivered"), (2, "pending"), (3, "dead")])
def test_a_failing_hook_keeps_the_outcome(app, fault, outcome, status):
    """Y4: the outcome commits, what the hook did is undone, and the event waits, with the reason, until it is taken."""
    body, code = FAULTS[fault]
    app.run("CREATE TABLE app.parent (a int PRIMARY KEY)")
    app.run("CREATE TABLE app.child (a int REFERENCES app.parent DEFERRABLE INITIALLY DEFERRED)")
    app.function("on_outcome", "INSERT INTO app.told (events) VALUES ('0'); %s" % body)
    app.hook()
    app.send("s")
    assert app.settle(outcome) == ["ok"]
    assert app.db.sql("SELECT status FROM outbox.messages") == [(status,)]
    assert app.db.sql("SELECT count(*) FROM outbox.attempt") == [(1,)]
    assert app.told() == []
    (subject, error, tries), = app.failures()
    assert subject == "s" and error.startswith(code) and tries == 1


def test_other_hooks_go_on(app):
    """Y4: hooks are called in the order of their registration, each for itself."""
    app.function("bad", "RAISE 'no'")
    app.function("worse", "RAISE 'never'")
    for name in ("bad", "on_outcome", "worse"):
        app.hook(name)
    app.send("s")
    app.settle(1)
    assert len(app.told()) == 1
    assert [row[1] for row in app.failures()] == ["P0001 no", "P0001 never"]


def test_failed_events_are_taken_later(app):
    """Y4: one by one, oldest first; what still fails waits on and counts; what is taken leaves; twice is not given."""
    app.function("on_outcome", "INSERT INTO app.told (events) VALUES (events); IF events::text LIKE '%bad%' OR NOT "
                               "EXISTS (SELECT FROM app.gate) THEN RAISE 'shut'; END IF")
    app.hook()
    for name in ("one", "bad", "two"):
        app.send(name)
    assert app.settle(1) == ["ok"] * 3
    assert [row[0] for row in app.failures()] == ["one", "bad", "two"]
    assert app.db.sql("SELECT outbox.run_failed_hooks()") == [(0,)]
    assert [row[2] for row in app.failures()] == [2, 2, 2]
    app.run("INSERT INTO app.gate VALUES (1)")
    with people(app.db).connect("relay", autocommit=True) as conn:
        assert conn.execute("SELECT outbox.run_failed_hooks()").fetchone() == (2,)
    assert [(row[0], row[2]) for row in app.failures()] == [("bad", 3)]
    assert [[event["subject"] for event in call] for call in app.told()] == [["one"], ["two"]]
    # Once its function is unhooked, nobody wants the rest.
    app.run("SELECT outbox.unhook(id) FROM outbox.hook")
    assert app.db.sql("SELECT outbox.run_failed_hooks()") == [(1,)]
    assert app.failures() == [] and len(app.told()) == 2


def test_two_run_failed_hooks_at_once(app):
    """Y4: no event is given twice."""
    app.function("on_outcome", "IF NOT EXISTS (SELECT FROM app.gate) THEN RAISE 'shut'; END IF; INSERT INTO app.told "
                               "(events) VALUES (events)")
    app.hook()
    for n in range(10):
        app.send(str(n))
    app.settle(1)
    app.run("INSERT INTO app.gate VALUES (1)")
    with app.db.connect() as one, app.db.connect() as two:
        assert one.execute("SELECT outbox.run_failed_hooks(4)").fetchone() == (4,)
        assert two.execute("SELECT outbox.run_failed_hooks(100)").fetchone() == (6,)
        two.commit()
        one.commit()
    assert sorted(call[0]["subject"] for call in app.told()) == [str(n) for n in range(10)]


def test_a_blocked_hook_gives_up(app):
    """Y4 N4: a hook that waits for somebody's lock does not hold the settle for longer than its lock_timeout, and the
    session's own lock_timeout is as before."""
    app.function("on_outcome", "LOCK TABLE app.gate; INSERT INTO app.told (events) VALUES (events)")
    app.hook()
    app.send("s")
    with app.db.connect() as blocker, app.db.connect(autocommit=True) as conn:
        blocker.execute("LOCK TABLE app.gate")
        conn.execute("SET lock_timeout = '7s'")
        with conn.transaction():
            before = conn.execute("SELECT clock_timestamp()").fetchone()[0]
            assert app.settle(1, connection=conn) == ["ok"]
            after = conn.execute("SELECT clock_timestamp()").fetchone()[0]
            assert conn.execute("SHOW lock_timeout").fetchone() == ("7s",)
        # 0.2 s of waiting; the rest is a loaded machine's.
        assert 0.15 < (after - before).total_seconds() < 5
        assert conn.execute("SHOW lock_timeout").fetchone() == ("7s",)
        (subject, error, _), = app.failures()
        assert subject == "s" and error.startswith("55P03")
        assert app.db.sql("SELECT outbox.run_failed_hooks()") == [(0,)]
        blocker.rollback()
        with conn.transaction():
            assert conn.execute("SELECT outbox.run_failed_hooks()").fetchone() == (1,)
            assert conn.execute("SHOW lock_timeout").fetchone() == ("7s",)
    assert len(app.told()) == 1


def test_nothing_of_a_hooks_settings_stays(app):
    """Y4 V1: a hook that sets a tenant for its own row security, and sets it back, leaves the session as it was,
    lock_timeout too; also within the settling transaction."""
    app.function("on_outcome", "PERFORM set_config('app.current_tenant_id', '%s', true); PERFORM set_config("
                               "'app.current_tenant_id', '', true); SET LOCAL lock_timeout = '1h'; SET LOCAL "
                               "enable_indexscan = off" % TENANT)
    app.hook()
    app.send("s")
    with app.db.connect() as conn:
        conn.execute("SET LOCAL lock_timeout = '9s'")
        assert app.settle(1, connection=conn) == ["ok"]
        assert conn.execute("SELECT current_setting('app.current_tenant_id', true)").fetchone()[0] in (None, "")
        assert conn.execute("SHOW lock_timeout").fetchone() == ("9s",)
    assert app.failures() == []


def test_who_may_run_failed_hooks(app):
    """Y4 V1: relays and operators; in a session with a tenant, that tenant's events only."""
    app.function("on_outcome", "IF NOT EXISTS (SELECT FROM app.gate) THEN RAISE 'shut'; END IF")
    app.hook()
    app.send("mine", tenant_id=TENANT)
    app.send("other")
    app.settle(1)
    app.run("INSERT INTO app.gate VALUES (1)")
    crowd = people(app.db)
    for group in ("producer", "auditor", "tenant", "outsider"):
        with crowd.connect(group) as conn:
            refused(conn, "SELECT outbox.run_failed_hooks()")
    with crowd.connect("relay", tenant=TENANT, autocommit=True) as conn:
        assert conn.execute("SELECT outbox.run_failed_hooks()").fetchone() == (1,)
    assert [row[0] for row in app.failures()] == ["other"]
    for senseless in (0, -1, None):
        with crowd.connect("relay", autocommit=True) as conn:
            assert attempt(conn, "SELECT outbox.run_failed_hooks(%s)", (senseless,)) == "OB001"
