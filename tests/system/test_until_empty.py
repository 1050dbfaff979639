"""`outbox run --until-empty`: it ends when nothing more can be delivered now, and says what is left and why.

Proves: N6 (why a message is not delivered yet), Y9 (without a route), V13 (paused), N2 (behind a dead head), V17 (disabled).
"""
import re
import time

import pytest

from support import database
from support.box import STORES, fresh_box
from support.relay import Relay
from support.under import PATIENCE


@pytest.fixture(params=STORES)
def box(request, tmp_path):
    return fresh_box(request, tmp_path)


def left(relay):
    """What the log says is left: topic, messages and reason."""
    found = re.findall(r'msg="left in the queue" store=\S+ namespace=(\S+) topic=(\S+) messages=(\d+) reason="?([^"\n]*)',
                       relay.log())
    return sorted(("%s/%s" % (space, topic), int(count), reason) for space, topic, count, reason in found)


def test_what_is_left_is_told(box, tmp_path):
    """N6 Y9 V13 N2: no route, later, paused, a paused sink, behind a dead head, headers that no route takes; the rest goes."""
    box.cli("configure", "on_dead", "hold", "--namespace", "hold")
    box.kill("t", "1", "--namespace", "hold", "--key", "k")
    box.send("t", "2", "--namespace", "hold", "--key", "k")
    box.send("nowhere", "1")
    box.send("later", "1", "--deliver-after", "+1h")
    box.send("calm", "1")
    box.send("mail", "1")
    box.send("mail", "2")
    box.send("picky", "1", "--header", "kind=known")
    box.send("picky", "1", "--header", "kind=strange")
    done = {box.send("orders", "1"), box.send("later", "2")}
    box.cli("pause", "--topic", "calm")
    box.send("letters", "1", "--header", "kind=x")
    box.cli("pause", "--sink", "mail", "--force")
    sinks = {"out": {"kind": "null"}, "mail": {"kind": "null"}}
    routes = [{"topic": "mail", "sink": "mail"}, {"topic": "letters", "headers": {"kind": "x"}, "sink": "mail"}, {"topic": "picky", "headers": {"kind": "known"}, "sink": "out"},
              {"topic": "nowhere2", "sink": "out"}, {"namespace": "hold", "sink": "out"}]
    routes += [{"topic": topic, "sink": "out"} for topic in ("orders", "later", "calm")]
    relay = Relay(tmp_path, box.url, sinks, routes)
    relay.until_empty(timeout=30)
    assert left(relay) == [
        ("default/calm", 1, "paused by an operator"),
        ("default/later", 1, "due later"),
        ("default/letters", 1, "the sink is paused by an operator"),
        ("default/mail", 2, "the sink is paused by an operator"),
        ("default/nowhere", 1, "no route matches"),
        ("default/picky", 1, "no route matches the headers"),
        ("hold/t", 1, "behind a message of the same key")]
    assert 'msg="nothing more to deliver now" store=default left=8' in relay.log()
    assert done < {row["id"] for row in box.list("--status", "delivered")}
    assert box.json("status")["delayed"] == 1


def test_nothing_is_left(box, tmp_path):
    """N6: an empty store, at once; and a retry is waited for."""
    relay = Relay(tmp_path, box.url, {"out": {"kind": "stub", "script": "retry accept", "retry": {"base": "100ms"}}},
                  [{"sink": "out"}])
    relay.until_empty(timeout=30)
    box.send("t", "1")
    relay.until_empty(timeout=30)
    assert len(box.list("--status", "delivered")) == 1 and left(relay) == []
    assert relay.log().count('msg="nothing left to deliver" store=default left=0') == 2


def test_a_relay_that_is_disabled(box, tmp_path):
    """V17: it delivers nothing, and says so instead of waiting for ever."""
    box.send("t", "1")
    relay = Relay(tmp_path, box.url, {"out": {"kind": "null"}}, [{"sink": "out"}], relay={"enabled": False})
    relay.until_empty(timeout=30)
    assert left(relay) == [("default/t", 1, "the relay is disabled")]


def test_nothing_is_counted_between_claims(db, tmp_path):
    """N6: a count of what is left costs as much as many deliveries. So it comes at the end, not whenever nothing is held."""
    db.sql("ALTER DATABASE \"%s\" SET track_functions = 'all'" % db.name)
    calls = "SELECT sum(calls)::int FROM pg_stat_user_functions WHERE funcname = 'sees_all'"  # a few a count
    relay = Relay(tmp_path, db.url(), {"out": {"kind": "null"}}, [{"sink": "out"}], relay={"batch": 1})
    relay.until_empty(timeout=60)
    empty, = db.sql(calls)[0]
    db.sql("SELECT outbox.enqueue('t', to_jsonb(i)) FROM generate_series(1, 1000) i")
    since = time.monotonic()
    relay.until_empty(timeout=60)
    seconds = time.monotonic() - since
    assert db.sql(calls)[0][0] - empty <= empty * (4 + seconds)


def test_a_store_that_cannot_be_used(tmp_path, pg_server):
    """N6: whoever waits for the end is told that it will not come: exit 78, and what to do."""
    pg_server.psql("CREATE DATABASE bare")
    relay = Relay(tmp_path, database.Database(pg_server, "bare").url(), {"out": {"kind": "null"}}, [{"sink": "out"}])
    relay.start("--until-empty")
    assert relay.process.wait(30 * PATIENCE) == 78
    assert "outbox migrate" in relay.log().splitlines()[-1]
