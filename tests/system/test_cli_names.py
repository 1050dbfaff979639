"""Names that operators type: patterns match, unknown names are refused, and whoever changed nothing is told so.

Proves: V13 (operators see, pause, requeue), T4 (acts on record), T5 (settings at run time), N6 (why nothing moves).
"""
import json

import pytest

from support.box import STORES, fresh_box
from support.relay import Relay, wait_for


@pytest.fixture(params=STORES)
def box(request, tmp_path):
    """A fresh outbox with some topics, once in every store that the build has."""
    fresh = fresh_box(request, tmp_path)
    for topic in ("orders.paid", "orders.new", "bills"):
        fresh.send(topic, "1")
    fresh.send("parcels", "1", "--namespace", "shop")
    return fresh


def refused(box, *args):
    """Exit 1, nothing on stdout and nothing on record; what was said."""
    done = box.cli(*args, check=False)
    assert (done.returncode, done.stdout) == (1, ""), done
    assert box.worker("acts") == []
    told = json.loads(box.cli(*args, "--json", check=False).stderr)["error"]
    assert told["code"] in ("UNKNOWN_NAME", "UNKNOWN_MESSAGE") and told["text"] in done.stderr
    return told["text"]


def test_a_pattern_pauses_what_comes_later(box):
    """V13 T4: it holds the topics there are and those that come; one resume ends it."""
    box.cli("pause", "--topic", "orders.*")
    box.send("orders.late", "1")
    assert [row["topic"] for row in box.json("status")["topics"] if row["paused"]] == [
        "orders.late", "orders.new", "orders.paid"]
    assert len(box.worker("claim")) == 2
    assert "Paused already" in box.cli("pause", "--topic", "orders.*").stderr
    held = box.cli("resume", "--topic", "orders.new", check=False)
    assert held.returncode == 1 and "paused: default/orders.*" in held.stderr
    assert box.cli("resume", "--topic", "orders.*").stderr == "Resumed: default/orders.*.\n"
    assert len(box.worker("claim")) == 3


def test_a_pattern_resumes_single_topics(box):
    """V13: and tells which."""
    for topic in ("orders.paid", "orders.new", "bills"):
        box.cli("pause", "--topic", topic)
    told = box.cli("resume", "--topic", "orders.*").stderr
    assert "orders.paid" in told and "orders.new" in told and "Still paused: default/bills." in told


UNKNOWN = [
    (["pause", "--topic", "ordres.paid"], ['"ordres.paid"', 'mean "orders.paid"', "--force"]),
    (["pause", "--topic", "parcels"], ['namespace "default"', "--namespace shop"]),
    (["pause", "--topic", "bulk.*"], ['no topic matches "bulk.*"', "outbox status"]),
    (["pause", "--namespace", "shp"], ['no namespace "shp"', 'mean "shop"']),
    (["pause", "--sink", "billing"], ["no relay is running", "--config", "--force"]),
    (["tune", "sink.billing.rate", "1/s"], ["no relay is running", "--force"]),
    (["tune", "poll", "--reset"], ["not tuned"]),
    (["resume", "--topic", "orders.paid"], ["default/orders.paid is not paused", "nothing is paused"]),
    (["list", "--topic", "bils"], ['mean "bills"']),
    (["list", "--namespace", "sh?"], ['no namespace matches "sh?"']),
    (["retry", "--topic", "bulk.*", "--yes"], ['no topic matches "bulk.*"']),
    (["discard", "--topic", "bils", "--yes"], ['mean "bills"']),
    (["retry", "--topic", "orders.*"], ["no dead letter matches"]),
    (["retry", "--all", "--dry-run"], ["no dead letter matches"]),
]


def test_what_there_is_not(box):
    """V13 T4: it is refused with the nearest name and the way on, and nothing is put on record."""
    for args, words in UNKNOWN:
        told = refused(box, *args)
        for word in words:
            assert word in told, args


def test_force_takes_what_is_yet_to_come(box):
    """V17: a topic, a namespace, a sink before its first message."""
    box.cli("pause", "--topic", "later", "--force")
    box.cli("pause", "--namespace", "soon", "--force")
    box.cli("pause", "--sink", "billing", "--force")
    box.cli("tune", "sink.billing.rate", "1/s", "--force")
    box.send("later", "1")
    box.send("t", "1", "--namespace", "soon")
    assert len(box.worker("claim")) == 4
    assert box.cli("tune", "sink.billing.rate").stdout == "sink.billing.rate = 1/s\n"
    assert box.json("tune", "sink.billing.rate", "--reset") == {"name": "sink.billing.rate", "value": None}


def test_dead_letters_by_pattern(box):
    """V13 T4: list, retry and discard take the same patterns."""
    box.settle(3)
    assert {row["topic"] for row in box.list("--topic", "orders.?*")} == {"orders.paid", "orders.new"}
    assert box.json("retry", "--topic", "orders.*", "--yes")["count"] == 2
    assert box.json("discard", "--namespace", "s*", "--topic", "*", "--yes")["count"] == 1
    assert [row["topic"] for row in box.list("--status", "dead")] == ["bills"]


def test_sinks_of_the_configuration(box, tmp_path):
    """V13: a file tells them, whatever else may be wrong with it."""
    file = tmp_path / "relay.yaml"
    file.write_text("sinks:\n  billing:\n    kind: http\n    url: ${NOT_SET_ANYWHERE}\n")
    told = box.cli("pause", "--sink", "biling", "--config", str(file), check=False)
    assert told.returncode == 1 and 'mean "billing"' in told.stderr
    box.cli("pause", "--sink", "billing", "--config", str(file))
    box.cli("tune", "sink.billing.rate", "1/s", "--config", str(file))


def test_sinks_that_relays_tell(box, tmp_path):
    """V13: without a file, those of the relays that run."""
    with Relay(tmp_path, box.url, {"out": {"kind": "null"}}, [{"topic": "*", "sink": "out"}]).running():
        wait_for(lambda: not box.list("--status", "pending"))
        box.cli("pause", "--sink", "out")
        told = box.cli("pause", "--sink", "outt", check=False)
        assert told.returncode == 1 and 'mean "out"' in told.stderr
