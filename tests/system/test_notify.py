"""Operators are told of dead letters: in digests, once, through a sink like any other; and never about the news themselves.

Proves: Y10 (dead letters notify an operator route without looping), T4.
"""
import json

import pytest

from support.box import STORES, fresh_box
from support.mailserver import MailServer
from support.receiver import Receiver, status
from support.relay import Relay, wait_for

GONE = {"kind": "stub", "script": "terminal:order_closed"}
ROUTES = [{"topic": "*", "sink": "gone"}]  # the news do not go here, though it matches


@pytest.fixture(params=STORES)
def box(request, tmp_path):
    return fresh_box(request, tmp_path)


def hook(receiver):
    return {"kind": "http", "url": receiver.url("/ops"), "allow": ["127.0.0.0/8"]}


def news(receiver):
    return [json.loads(request.body) for request in receiver.requests]


def dead(box, topic="orders"):
    return sum(row["topic"] == topic for row in box.list("status:dead"))


def made(box):
    """How many messages with news there are."""
    return sum(row["topic"] == "dead_letters" for row in box.list())


def test_y10_a_digest_survives_restarts(box, tmp_path):
    """Y10 T4: each dead letter is told of once, in one message per interval, also over a restart and a change of leader."""
    with Receiver() as receiver:
        sinks = {"gone": GONE, "ops": hook(receiver)}
        settings = {"notify": {"sink": "ops", "every": "1s", "topic": "ord*"}}
        box.send("letters", "1")  # another topic: nobody is told
        for number in range(3):
            box.send("orders", str(number))
        with Relay(tmp_path, box.url, sinks, ROUTES, **settings).running():
            wait_for(lambda: sum(item["count"] for item in news(receiver)) >= 3, what="news of three")
        first = news(receiver)
        assert sum(item["count"] for item in first) == 3, first
        told = first[0]
        assert told["groups"][0]["code"] == "order_closed" and told["groups"][0]["topics"] == ["orders"], told
        assert "group:" + told["groups"][0]["fingerprint"] in told["text"] and "outbox list status:dead" in told["text"]
        assert "dead letter" in told["subject"] and told["store"] == "default"
        box.send("orders", "4")
        with Relay(tmp_path, box.url, sinks, ROUTES, name="other", **settings).running():
            wait_for(lambda: len(news(receiver)) > len(first), what="news of the fourth")
        assert [item["count"] for item in news(receiver)[len(first):]] == [1]
        assert dead(box) == 4 and dead(box, "letters") == 1 and dead(box, "dead_letters") == 0


def test_y10_no_loop(box, tmp_path):
    """Y10: where the route itself dies, its dead letters make no news, and nothing gathers."""
    sinks = {"gone": GONE, "ops": {"kind": "stub", "script": "terminal:no_mailbox"}}
    box.send("orders", "1")
    with Relay(tmp_path, box.url, sinks, ROUTES, notify={"sink": "ops", "every": "1s"}).running():
        wait_for(lambda: dead(box, "dead_letters") == 1, what="news that died")
        box.send("orders", "2")
        wait_for(lambda: dead(box, "dead_letters") == 2, what="news of the second")
    assert made(box) == 2 and dead(box) == 2


def test_y10_by_mail(tmp_path):
    """Y10: by mail, through the SMTP sink, to the recipient of `notify`; below the minimum nobody is told."""
    box = fresh_box(type("R", (), {"param": "sqlite"}), tmp_path)
    with MailServer() as server:
        sinks = {"gone": GONE, "mail": {"kind": "smtp", "url": server.url(), "tls": {"mode": "none"}, "from": "outbox@example.org"}}
        with Relay(tmp_path, box.url, sinks, ROUTES, notify={"sink": "mail", "recipient": "ops@example.org", "every": "1s",
                                                             "minimum": 2}).running():
            box.send("orders", "1")
            wait_for(lambda: dead(box) == 1, what="a dead letter")
            box.send("orders", "2")
            wait_for(lambda: server.mails, what="a mail")
        (mail,) = server.mails
        assert mail.header("To") == "ops@example.org" and "2 dead letters" in mail.header("Subject")
        assert "order_closed" in mail.text() and "outbox list status:dead" in mail.text()


def test_y10_a_route_that_is_down(box, tmp_path):
    """Y10: while the last message is on its way there is no other; the next one has all since."""
    with Receiver(behave=status(503)) as receiver:
        sinks = {"gone": GONE, "ops": {**hook(receiver), "retry": {"base": "200ms", "cap": "200ms"}, "breaker": {"failures": 0}}}
        box.send("orders", "1")
        with Relay(tmp_path, box.url, sinks, ROUTES, notify={"sink": "ops", "every": "1s"}).running():
            wait_for(lambda: len(receiver.requests) >= 2, what="attempts")
            box.send("orders", "2")
            box.send("orders", "3")
            wait_for(lambda: dead(box) == 3, what="dead letters")
            before = len(receiver.requests)
            wait_for(lambda: len(receiver.requests) >= before + 2, what="more attempts")
            assert made(box) == 1
            receiver.behave = status(204)
            wait_for(lambda: sum(item["count"] for item in news(receiver)[before:] if item["count"] > 1) >= 2, what="the rest")
        assert made(box) == 2
