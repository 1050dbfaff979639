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
