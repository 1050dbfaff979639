"""Email by the relay: all of it arrives, in the order of each key, through the death of the mail server; a recipient
that is refused and one that is greylisted.

Proves: Y2 (email by event type), Y7 (many over one connection), V16 (the recipient is the message's), N2, N5, S13.
"""
import time

from support.mailserver import DROP, HANG, MailServer
from support.relay import Relay, wait_for
from support.shop import Ledger
from support.sinkdrive import needs_kind

pytestmark = needs_kind("smtp")


def make(tmp_path, shop, server, **more):
    sink = {"kind": "smtp", "url": server.url(), "tls": {"mode": "none"}, "from": "Shop <shop@example.org>",
            "ehlo": "client.test", "connections": 3, "concurrency": 6, "subject": "Order {{n}}", "text": "Thank you.",
            "retry": {"base": "20ms", "cap": "100ms"},
            "breaker": {"base": "50ms", "cap": "200ms"}, "timeout": "5s", **more}
    sink = {name: value for name, value in sink.items() if value is not None}
    return Relay(tmp_path, shop.url, {"mail": sink}, [{"topic": "mail.*", "sink": "mail"}])


def accepted(*servers):
    """As a ledger wants it. A mail does not say which attempt it is: its bytes are the same at all of them."""
    mails = [mail for server in servers for mail in server.mails]
    return [{"id": mail.header("X-Outbox-Id"), "attempt": number} for number, mail in enumerate(mails)]


def test_server_dies_and_comes_back(shop, tmp_path):
    with MailServer() as first:
        relay = make(tmp_path, shop, first)
        sent = shop.enqueue(300, topic="mail.order", keys=("a", "b", None), recipient="zoe@example.com")
        with relay.running():
            wait_for(lambda: len(first.mails) >= 60)
            first.say["end"] = DROP  # it takes some more, and does not tell
            wait_for(lambda: len(first.seen) > len(first.mails))
            first.close()
            wait_for(lambda: relay.logged("smtp_connect"))
            with MailServer(port=first.port) as second:
                shop.wait(timeout=40, delivered=300)
                assert second.connections <= 6  # three at once; a few were opened while it came up
                Ledger(sent, accepted(first, second)).check(duplicates=True)
                assert {tuple(mail.recipients) for mail in first.mails + second.mails} == {("zoe@example.com",)}
    assert any(outcome == "unknown" for outcomes in shop.all_attempts().values() for _, outcome in outcomes)


def test_only_what_was_sent_is_unknown(shop, tmp_path):
    """S11: one connection, and a server that is silent about the first mail. Those that wait for it spend no attempt."""
    with MailServer() as server:
        server.say["end"] = [HANG, None]
        shop.enqueue(6, topic="mail.order", recipient="zoe@example.com")
        with make(tmp_path, shop, server, connections=1, timeout="2s", breaker={"failures": 0}).running():
            wait_for(lambda: shop.states().get("delivered") == 6)
    outcomes = sorted([outcome for _, outcome in attempts if outcome != "released"]
                      for attempts in shop.all_attempts().values())
    assert outcomes == [["delivered"]] * 5 + [["unknown", "delivered"]]
    assert len(server.seen) == 7


def test_a_server_may_think(shop, tmp_path):
    """M15: longer than other sinks may. A mail that is given up too early is one that comes twice."""
    with MailServer() as server:
        server.say["end"] = lambda _recipient: time.sleep(11)  # the default for others is 10 s
        one, = shop.enqueue(topic="mail.order", recipient="zoe@example.com")
        with make(tmp_path, shop, server, timeout=None).running():
            wait_for(lambda: shop.message(one.id, "status") == "delivered", 30)
        assert [outcome for _, outcome in shop.attempts(one.id)] == ["delivered"] and len(server.seen) == 1


def test_refused_and_greylisted_recipients(shop, tmp_path):
    replies = {"nobody@example.com": "550 5.1.1 nobody", "grey@example.com": "450 4.7.1 greylisted"}
    with MailServer() as server:
        server.say["rcpt"] = replies.get
        dead, = shop.enqueue(topic="mail.order", recipient="nobody@example.com")
        grey, = shop.enqueue(topic="mail.order", recipient="grey@example.com")
        shop.enqueue(20, topic="mail.order", recipient="zoe@example.com")
        with make(tmp_path, shop, server).running():
            wait_for(lambda: len(server.mails) == 20 and shop.attempts(dead.id) and shop.attempts(grey.id))
            wait_for(lambda: shop.states().get("delivered") == 20)
        assert shop.message(dead.id, "status") == "dead"
        assert [outcome for _, outcome in shop.attempts(dead.id)] == ["failed"]
        assert [outcome for _, outcome in shop.attempts(grey.id)] == ["retry"]  # and no second one within minutes
        assert shop.message(grey.id, "status") not in ("dead", "delivered")
