"""What an operator sees at night: relays, sinks and breakers, pauses with who and why, the oldest undelivered message, the last error.

Proves: N6 (why a message is not delivered yet), V13 (pauses), V17 (switched off), S13 (by code).
"""
import contextlib
import json
import sqlite3
import time

import pytest

from support.box import STORES, fresh_box
from support.database import run_cli
from support.receiver import Receiver, status
from support.relay import Relay, wait_for


@pytest.fixture(params=STORES)
def box(request, tmp_path):
    return fresh_box(request, tmp_path)


def topic_of(box, name):
    return next(row for row in box.json("status")["topics"] if row["topic"] == name)


def sink_of(box, name):
    return next((row for row in box.json("status")["sinks"] if row["name"] == name), None)


def test_a_receiver_that_fails_everything_is_seen(box, tmp_path):
    """N6 S13: breaker, since when, last error and next probe; retrying, the oldest age since enqueue, the last error of the topic."""
    with Receiver(behave=status(500, body=b"out of \x1b[31morder")) as receiver:
        for number in range(12):
            box.send("orders", str(number))
        sinks = {"billing": {"kind": "http", "url": receiver.url("/hook"), "allow": ["127.0.0.0/8"], "rate": "1000/s",
                             "concurrency": 7},
                 "calm": {"kind": "null"}}
        relay = Relay(tmp_path, box.url, sinks, [{"topic": "orders", "sink": "billing"}, {"topic": "letters.*", "sink": "calm"}])
        with relay.running():
            wait_for(lambda: (sink_of(box, "billing") or {}).get("breaker") in ("open", "half_open"), what="an open breaker")
            seen = sink_of(box, "billing")
            assert seen["cause"] == "failing" and seen["since"] and seen["failed"] >= 5, seen
            assert seen["code"] == "http_500" and seen["error_at"] and seen["success_at"] is None
            assert seen["concurrency"] == 7 and seen["rate_limit"] == "1000/1s" and not seen["paused"]
            calm = sink_of(box, "calm")
            assert (calm["breaker"], calm["failed"], calm["error"], calm["rate_limit"]) == ("closed", 0, None, None)
            state = box.json("status")
            assert [(row["alive"], row["enabled"], len(row["routes_digest"])) for row in state["relays"]] == [(True, True, 16)]
            row = wait_for(lambda: (lambda row: row if row["retrying"] >= 5 else None)(topic_of(box, "orders")), what="retries")
            assert row["pending"] + row["processing"] == 12 and row["last_code"] == "http_500" and row["last_error_at"]
            first = topic_of(box, "orders")["oldest_undelivered_s"]
            assert first > 0
            wait_for(lambda: topic_of(box, "orders")["oldest_undelivered_s"] > first, what="an age that grows")
            text = box.cli("status").stdout
            assert "billing" in text and "http_500" in text and "failing since" in text and "\x1b" not in text
        wait_for(lambda: not box.json("status")["relays"], what="no relay")


def test_pauses_say_who_why_and_since(box):
    """V13 V17: who paused what, why and since when; the same of what is switched off."""
    box.send("orders", "1")
    box.cli("pause", "--topic", "orders", "--actor", "ann", "--reason", "receiver is being moved")
    box.cli("pause", "--sink", "billing", "--force", "--actor", "bob")
    box.cli("tune", "enabled", "off", "--actor", "eve", "--reason", "fire")
    state = box.json("status")
    assert [(row["namespace"], row["topic"], row["sink"], row["actor"], row["reason"]) for row in
            sorted(state["pauses"], key=lambda row: row["actor"])] == [
                ("default", "orders", None, "ann", "receiver is being moved"), (None, None, "billing", "bob", None)]
    assert all(row["at"] for row in state["pauses"])
    assert [(row["name"], row["value"], row["actor"], row["reason"]) for row in state["tunings"]] == [("enabled", "off", "eve", "fire")]
    text = box.cli("status").stdout
    assert "default/orders by ann since 20" in text and ": receiver is being moved" in text
    assert "sink billing by bob since 20" in text
    assert "enabled = off, so nothing is delivered; by eve since 20" in text and ": fire" in text


def test_what_is_delayed_is_not_late(box):
    """N6: a message that was asked to wait does not count as undelivered before its time; parked ones count from their enqueue."""
    box.send("later", "1", "--deliver-after", "+1h")
    assert topic_of(box, "later")["oldest_undelivered_s"] == 0 and topic_of(box, "later")["delayed"] == 1
    box.send("keyed", "1", "--key", "k")
    box.send("keyed", "2", "--key", "k")
    row = topic_of(box, "keyed")
    assert row["oldest_undelivered_s"] > 0 and row["retrying"] == 0 and row["last_error"] is None and not row["estimated"]
    assert topic_of(box, "keyed")["oldest_undelivered_s"] > row["oldest_undelivered_s"]


def test_the_last_error_of_a_topic(box):
    """N6 S13: of retries and of dead letters, the later one; nothing of what was delivered or discarded."""
    dead = box.kill("orders", "1", code="http_400", error="no such order")
    row = topic_of(box, "orders")
    assert (row["dead"], row["last_code"], row["last_error"]) == (1, "http_400", "no such order")
    box.send("orders", "2")
    box.settle(2, code="http_503", error="busy")
    row = topic_of(box, "orders")
    assert (row["retrying"], row["last_code"], row["last_error"]) == (1, "http_503", "busy")
    box.cli("discard", dead, "--yes")
    assert topic_of(box, "orders")["dead"] == 0


def test_the_views_have_the_same(box, request):
    """N6: pauses and sinks as views; a relay's own words, whatever they are, break nothing."""
    info = json.dumps({"sinks": [{"name": "b", "kind": "http", "breaker": "open", "cause": "down", "since": "2030-01-01T00:00:00Z",
                                  "failed": 3, "in_flight": 1, "rate": 2.5, "concurrency": 4, "paused": False, "code": "x", "error": "y"}]})
    box.send("t", "1")
    box.cli("pause", "--topic", "t", "--actor", "ann", "--reason", "why")
    if box.url.startswith("sqlite"):
        now = int(time.time() * 1e6)
        with contextlib.closing(sqlite3.connect(box.url[len("sqlite:"):])) as conn, conn:
            conn.executemany("insert into outbox_relay values (?, 'h', 1, 'v', 'running', ?, ?, 10000000, ?)",
                             [("w", now, now, info), ("odd", now, now, '{"sinks": 7}')])
            sinks = conn.execute("select relay, name, breaker, cause, failed, rate from outbox_sinks where name is not null").fetchall()
            pauses = conn.execute("select topic, actor, reason from outbox_pauses").fetchall()
    else:
        db = request.getfixturevalue("db")
        db.sql("select outbox.beat('w', 'h', 1, 'v', info => %s::jsonb)", info)
        db.sql("select outbox.beat('odd', 'h', 1, 'v', info => '{\"sinks\": 7}')")
        sinks = db.sql("select relay, name, breaker, cause, failed, rate from outbox.sinks")
        pauses = db.sql("select topic, actor, reason from outbox.pauses")
    assert sinks == [("w", "b", "open", "down", 3, 2.5)]
    assert pauses == [("t", "ann", "why")]
    assert [row["name"] for row in box.json("status")["sinks"]] == ["b"]


# ---- doctor

def doctor(box, tmp_path, sinks, routes):
    config = tmp_path / "doctor.yaml"
    config.write_text(json.dumps({"store": box.url, "sinks": sinks, "routes": routes}))
    done = run_cli("doctor", "--config", config, "--json", check=False)
    found = json.loads(done.stdout)["findings"]
    return done.returncode, [(row["what"], row["text"]) for row in found if row["level"] == "error"]


def age(box, request):
    """Makes what is there two minutes older."""
    if box.url.startswith("sqlite"):
        with contextlib.closing(sqlite3.connect(box.url[len("sqlite:"):])) as conn, conn:
            conn.execute("drop trigger if exists outbox_message_update")
            conn.execute("update outbox_queue set due = due - 120000000")
            conn.execute("update outbox_message set created_at = created_at - 120000000")
    else:
        request.getfixturevalue("db").sql("update outbox.message set created_at = created_at - interval '2 min'")


def test_doctor_tells_what_is_not_delivered(box, tmp_path, request):
    """N6: a sink that fails everything, a topic that no running relay has a route for."""
    with Receiver(behave=status(500)) as receiver:
        for number in range(12):
            box.send("orders", str(number))
        box.send("nowhere", "1")
        sinks = {"billing": {"kind": "http", "url": receiver.url("/hook"), "allow": ["127.0.0.0/8"]}}
        relay = Relay(tmp_path, box.url, sinks, [{"topic": "orders", "sink": "billing"}])
        with relay.running():
            wait_for(lambda: (sink_of(box, "billing") or {}).get("failed", 0) >= 5, what="failures")
            rc, found = doctor(box, tmp_path, sinks, [{"sink": "billing"}])
    assert rc == 1
    assert any(what == "sink" and "attempts failed since the last delivery: http_500" in text for what, text in found), found
    assert any(what == "routes" and "1 pending that no running relay has a route for, in 1 topic: default/nowhere" in text
               for what, text in found), found


def test_doctor_tells_a_queue_that_nobody_drains(box, tmp_path, request):
    """N6 V17: no relay runs, and messages wait for more than a minute; a young queue is no problem."""
    sinks = {"out": {"kind": "null"}}
    box.send("orders", "1")
    assert doctor(box, tmp_path, sinks, [{"sink": "out"}]) == (0, [])
    age(box, request)
    rc, found = doctor(box, tmp_path, sinks, [{"sink": "out"}])
    assert rc == 1 and len(found) == 1, found
    assert found[0][0] == "relay" and "no relay delivers them, the oldest for 120 s" in found[0][1].replace("121 s", "120 s").replace("2 min", "120 s"), found


# ---- explain

def explain(box, id_):
    return box.json("explain", id_)["answers"]


def states(box, id_):
    return [row["state"] for row in explain(box, id_)]


def backdate(box, request, text):
    """Runs SQL that makes a lease or a time be over: {q} is the queue, {past} a time that is over."""
    if box.url.startswith("sqlite"):
        with contextlib.closing(sqlite3.connect(box.url[len("sqlite:"):])) as conn, conn:
            conn.execute(text.format(q="outbox_queue", past="1000000"))
    else:
        db = request.getfixturevalue("db")
        db.sql(text.format(q="outbox.queue", past="now() - interval '1 min'"))


def relay_row(box, request, sinks=(), routes=(), enabled=True, worker="w"):
    """A relay that says so of itself."""
    info = json.dumps({"enabled": enabled, "cut": False, "routes": list(routes), "sinks": list(sinks)})
    if box.url.startswith("sqlite"):
        now = int(time.time() * 1e6)
        with contextlib.closing(sqlite3.connect(box.url[len("sqlite:"):])) as conn, conn:
            conn.execute("insert or replace into outbox_relay values (?, 'h', 1, 'v', 'running', ?, ?, 60000000, ?)", (worker, now, now, info))
    else:
        request.getfixturevalue("db").sql("select outbox.beat(%s, 'h', 1, 'v', every => '60 s', info => %s::jsonb)", worker, info)


ALL = [{"namespace": "*", "topic": "*", "sink": "out"}]
WELL = {"name": "out", "kind": "x", "breaker": "closed", "failed": 0, "in_flight": 0, "rate": 0, "concurrency": 1, "paused": False}
RETRY, LIMITED = 2, 5


def make_delayed(box, _):
    return box.send("t", "1", "--deliver-after", "+1h")


def make_backoff(box, request):
    id_ = box.send("t", "1")
    box.settle(RETRY, code="http_503", error="busy")
    backdate(box, request, "update {q} set due = due + " + ("3600000000" if box.url.startswith("sqlite") else "interval '1 h'"))
    return id_


def make_limited(box, request):
    id_ = box.send("t", "1")
    box.settle(LIMITED, code="http_429", error="slow down")
    backdate(box, request, "update {q} set due = due + " + ("3600000000" if box.url.startswith("sqlite") else "interval '1 h'"))
    return id_


def make_leased(box, _):
    id_ = box.send("t", "1")
    box.worker("claim")
    return id_


def make_lease_lost(box, request):
    id_ = box.send("t", "1")
    box.worker("claim")
    backdate(box, request, "update {q} set until = {past} where until is not null")
    return id_


def make_behind(box, request):
    head = make_backoff_keyed(box, request)
    return box.send("t", "2", "--key", "k"), head


def make_backoff_keyed(box, request):
    id_ = box.send("t", "1", "--key", "k")
    box.settle(RETRY, code="http_503", error="busy")
    backdate(box, request, "update {q} set due = due + " + ("3600000000" if box.url.startswith("sqlite") else "interval '1 h'"))
    return id_


def make_held(box, _):
    box.cli("configure", "on_dead", "hold")
    head = box.kill("t", "1", "--key", "k", code="http_400", error="bad")
    return box.send("t", "2", "--key", "k"), head


def make_paused(box, _):
    id_ = box.send("t", "1")
    box.cli("pause", "--topic", "t", "--actor", "ann", "--reason", "moving")
    return id_


def make_sink_paused(box, request):
    relay_row(box, request, [WELL], ALL)
    box.cli("pause", "--sink", "out", "--force", "--actor", "ann", "--reason", "moving")
    return box.send("t", "1")


def make_disabled(box, request):
    relay_row(box, request, [WELL], ALL)
    box.cli("tune", "enabled", "off", "--actor", "ann", "--reason", "fire")
    return box.send("t", "1")


def make_breaker_open(box, request):
    relay_row(box, request, [{**WELL, "breaker": "open", "cause": "down", "since": "2030-01-31T08:00:00Z", "next_probe": "2030-01-31T08:00:09Z",
                              "code": "http_connect", "error": "refused", "failed": 9}], ALL)
    return box.send("t", "1")


def make_sink_limited(box, request):
    relay_row(box, request, [{**WELL, "limited_until": "2090-01-31T08:00:00Z"}], ALL)
    return box.send("t", "1")


def make_no_relay(box, _):
    return box.send("t", "1")


def make_no_route(box, request):
    relay_row(box, request, [WELL], [{"namespace": "*", "topic": "other", "sink": "out"},
                                     {"namespace": "default", "topic": "t", "headers": {"kind": "x*"}, "sink": "out"}])
    return box.send("t", "1", "--header", "kind=y")


def make_due(box, request):
    relay_row(box, request, [WELL], [{"namespace": "default", "topic": "t", "headers": {"kind": "x*"}, "sink": "out"}])
    return box.send("t", "1", "--header", "kind=xy")


def make_schema_refused(box, _):
    return box.kill("t", "1", code="schema", error="/a is missing")


def make_expired(box, _):
    id_ = box.send("t", "1", "--expires-at", "-1s")
    box.settle(1)
    return id_


def make_dead(box, _):
    return box.kill("t", "1", code="http_400", error="no such order")


def make_discarded(box, _):
    id_ = box.kill("t", "1")
    box.cli("discard", id_, "--yes", "--actor", "ann", "--reason", "never mind")
    return id_


def make_delivered(box, _):
    id_ = box.send("t", "1")
    box.worker("settle", "1", "", "")
    return id_


def make_erased(box, request):
    tenant = "7d0c7bd5-7a5c-4f0e-9c39-0d6a0b4f7c11"
    id_ = box.send("t", "1", "--tenant", tenant)
    box.worker("erase", tenant)
    return id_


def make_unknown(_box, _request):
    return "0190d7c4-5a6b-7c8d-9e0f-112233445566"


CASES = {
    "delayed": (make_delayed, ["delayed", "no_relay"], "as its producer asked", "outbox retry {id}"),
    "backoff": (make_backoff, ["backoff", "no_relay"], "http_503: busy; the next one is due at", "outbox retry {id}"),
    "limited": (make_limited, ["limited", "no_relay"], "ended as limited", "outbox retry {id}"),
    "leased": (make_leased, ["leased"], "its lease ends at", "wait until the lease ends"),
    "lease_lost": (make_lease_lost, ["lease_lost"], "was not heard of again", "outbox run"),
    "behind": (make_behind, ["behind", "backoff", "no_relay"], "goes first: {head}", "outbox explain {head}"),
    "held": (make_held, ["held", "dead"], "held by the dead letter {head}", "outbox retry {head} (or: outbox skip {head})"),
    "paused": (make_paused, ["paused", "no_relay"], "the topic default/t is paused by ann since", "outbox resume --namespace default --topic t"),
    "sink_paused": (make_sink_paused, ["sink_paused"], "its sink out is paused by ann since", "outbox resume --sink out"),
    "disabled": (make_disabled, ["disabled"], "switched off (enabled off) by ann since", "outbox tune enabled --reset"),
    "breaker_open": (make_breaker_open, ["breaker_open"], "last error: http_connect: refused; next probe: 2030-01-31",
                     "fix the receiver; then the next probe resumes deliveries"),
    "sink_limited": (make_sink_limited, ["limited"], "asked to wait until 2090-01-31", "wait, or ask the receiver for a higher limit"),
    "no_relay": (make_no_relay, ["no_relay"], "no relay is running", "outbox run"),
    "no_route": (make_no_route, ["no_route"], "no running relay has a route for default/t", "add a route to the configuration of a relay, and reload it"),
    "due": (make_due, ["due"], "nothing is in its way", None),
    "schema_refused": (make_schema_refused, ["schema_refused"], "/a is missing", "outbox retry {id} (or: outbox discard {id})"),
    "expired": (make_expired, ["expired"], "it expired at", "outbox retry {id} (or: outbox discard {id})"),
    "dead": (make_dead, ["dead"], "http_400: no such order", "outbox retry {id} (or: outbox discard {id})"),
    "discarded": (make_discarded, ["discarded"], "discarded by ann at", "outbox redeliver {id}"),
    "delivered": (make_delivered, ["delivered"], "at attempt 1; the receiver calls it theirs-1", "outbox redeliver {id}"),
    "erased": (make_erased, ["erased"], "there is no such message any more", None),
    "unknown": (make_unknown, ["unknown"], "its transaction was not committed", "check that the producer commits"),
}


@pytest.mark.parametrize("name", CASES)
def test_why_a_message_is_not_delivered(box, request, name):
    """N6: each state is made, and explained with its reason, its facts and the command that changes it."""
    make, wanted, reason, command = CASES[name]
    made = make(box, request)
    id_, head = made if isinstance(made, tuple) else (made, None)
    rows = explain(box, id_)
    assert [row["state"] for row in rows] == wanted, rows
    assert reason.format(id=id_, head=head) in rows[0]["reason"] and rows[0]["message_id"] == id_, rows
    assert rows[0]["command"] == (command.format(id=id_, head=head) if command else None), rows
    assert isinstance(rows[0]["facts"], dict)
    assert [row["step"] for row in rows] == [1 if row["message_id"] == id_ else 2 for row in rows]
    text = box.cli("explain", id_).stdout
    assert rows[0]["reason"] in text and (not command or "-> " + rows[0]["command"] in text)


def test_the_beginning_of_an_id_will_do(box):
    """N6: a unique prefix; one that is too short, fits none or fits several is refused."""
    id_ = box.send("t", "1")
    assert box.json("explain", id_[:-1])["id"] == id_
    other = box.send("t", "2")
    same = next(n for n in range(36) if id_[n] != other[n])
    several = box.cli("explain", id_[:max(same, 4)], check=False)
    assert several.returncode == 1 and "several message ids begin with" in several.stderr
    for word, rc in (("ffff", 1), ("abc", 2), ("zzzzz", 2), ("ab-cd", 2)):
        assert box.cli("explain", word, check=False).returncode == rc, word


def test_a_tenant_is_told_of_its_own_only(db):
    """N6 Y5: row security holds for explain; a tenant reads neither who paused, nor why, nor the names of relays and sinks."""
    mine, other = "7d0c7bd5-7a5c-4f0e-9c39-0d6a0b4f7c11", "7d0c7bd5-7a5c-4f0e-9c39-0d6a0b4f7c22"
    ids = {tenant: json.loads(db.cli("send", "t", "1", "--tenant", tenant, "--json").stdout)["id"] for tenant in (mine, other)}
    db.cli("pause", "--topic", "t", "--actor", "ann", "--reason", "secret plan")
    with db.connect(autocommit=True) as conn:
        def ask(id_):
            return conn.execute("select state, reason, facts, command from outbox.explain(%s)", (id_,)).fetchall()
        assert [row[0] for row in ask(ids[mine])] == ["paused", "no_relay"] and "secret plan" in ask(ids[mine])[0][1]
        conn.execute("set role outbox_auditor")
        assert [row[0] for row in ask(ids[other])] == ["paused", "no_relay"]
        conn.execute("set role outbox_tenant")
        assert [row[0] for row in ask(ids[mine])] == ["unknown"]
        conn.execute("select set_config('app.current_tenant_id', %s, false)", (mine,))
        assert ask(ids[mine]) == [("paused", "paused", None, None), ("no_relay", "no relay", None, None)]
        assert [row[0] for row in ask(ids[other])] == ["unknown"]
