"""The relay and the chat sinks together: recipients, pace, a server that is killed in the middle, order, references.
Proves: V6, V16, S11, S13, Y2.
"""
import collections
import json
import time

import pytest

from support.chatservers import SlackServer, TelegramServer, WhatsAppServer, authority
from support.receiver import hang_up
from support.relay import Relay, wait_for
from support.shop import SqliteShop
from support.sinkdrive import has_kind
from support.sqlite_file import Outbox

KINDS = {"slack": (SlackServer, "C1", "C2"), "telegram": (TelegramServer, "42", "43"),
         "whatsapp": (WhatsAppServer, "491701234567", "15550100")}
FAST = {"retry": {"base": "20ms", "cap": "100ms"}, "breaker": {"base": "50ms", "cap": "200ms"}, "timeout": "2s"}


@pytest.fixture(scope="module")
def tls(tmp_path_factory):
    return authority(tmp_path_factory.mktemp("tls"))


@pytest.fixture(params=KINDS)
def kind(request):
    if not has_kind(request.param):
        pytest.skip("this build has no sink " + request.param)
    return request.param


@pytest.fixture
def shop(tmp_path):
    return SqliteShop(Outbox.create(tmp_path / "shop.db"))


def make(tmp_path, shop, server, kind, **more):
    options = {"kind": kind, **FAST, **server.options(), "overall": 0, **more}
    if kind == "slack":
        del options["overall"]
    for name in [name for name in options if "." in name]:
        section, _, key = name.partition(".")
        options[section] = {**options.get(section, {}), key: options.pop(name)}
    options["allow"] = [options["allow"]]
    return Relay(tmp_path, shop.url, {"chat": options}, [{"sink": "chat"}])


def accepted(server):
    """(recipient, text) of what the server took, in the order it came."""
    if isinstance(server, SlackServer):
        return [(name, post["text"]) for name, channel in server.channels.items() for post in channel.posts]
    if isinstance(server, TelegramServer):
        return [(str(chat), post["text"]) for chat, posts in server.chats.items() for post in posts]
    return [(post["to"], post["text"]["body"]) for post in server.posts]


def enqueue(shop, count, recipients, start=0):
    for n in range(start, start + count):
        to = recipients[n % len(recipients)]
        shop.enqueue(keys=(to,), recipient=to, payload={"text": "%s-%d" % (to, n)})


@pytest.mark.parametrize("hold", ["2s", "0s"])
def test_each_recipient_gets_its_own_in_order_at_its_pace(tmp_path, shop, tls, kind, hold):
    """V16, Y2: the server refuses what comes too early; the relay never sends it."""
    server_class, *recipients = KINDS[kind]
    with server_class(tls) as server:
        server.spacing = 0.05  # the first one has a handshake to make, which the pace does not count
        enqueue(shop, 12, recipients)
        pace = {"pace": "200ms", "pace_burst": 1, "hold": hold}
        began = time.monotonic()
        make(tmp_path, shop, server, kind, **pace).until_empty()
        assert time.monotonic() - began > 5 * 0.2
        for to in recipients:
            assert [text for name, text in accepted(server) if name == to] == [
                "%s-%d" % (to, n) for n in range(12) if recipients[n % 2] == to]
        assert len(server.requests) == 12
    assert {outcome for outcomes in shop.all_attempts().values() for _, outcome in outcomes} == {"delivered"}


def test_reference_is_kept(tmp_path, shop, tls, kind):
    """V6: the receiver's own id is on record."""
    server_class, to, _ = KINDS[kind]
    with server_class(tls) as server:
        enqueue(shop, 1, [to])
        make(tmp_path, shop, server, kind).until_empty()
        references = [row[0] for row in shop.sql("SELECT reference FROM outbox_attempts")]
        assert references == [{"slack": "1700000000.000001", "telegram": "1", "whatsapp": "wamid.000001"}[kind]]


def test_server_killed_in_the_middle(tmp_path, shop, tls, kind):
    """S13: nothing lost, order kept, twice only where no answer came."""
    server_class, *recipients = KINDS[kind]
    before = server_class(tls)
    relay = make(tmp_path, shop, before, kind, pace="0s")
    enqueue(shop, 40, recipients)
    with relay.running():
        before.wait(lambda it: len(it.requests) >= 10)
        before.answers = [hang_up] * 2
        enqueue(shop, 20, recipients, start=40)
        wait_for(lambda: not before.answers)
        before.close()
        enqueue(shop, 20, recipients, start=60)
        wait_for(lambda: relay.logged("http_connect"))
        with server_class(tls, port=before.port) as after:
            shop.wait(delivered=80, timeout=30)
            taken = accepted(before) + accepted(after)
    texts = [text for _, text in taken]
    times = collections.Counter(texts)
    assert len(times) == 80
    for to in recipients:
        mine = list(dict.fromkeys(text for name, text in taken if name == to))
        assert mine == ["%s-%d" % (to, n) for n in range(80) if recipients[n % 2] == to]
    unknown = sum(outcome == "unknown" for outcomes in shop.all_attempts().values() for _, outcome in outcomes)
    assert unknown >= 1 and len(texts) - 80 <= unknown
    token = before.token
    assert token not in relay.log() and token not in json.dumps(shop.sql("SELECT code, error FROM outbox_attempts"))


def test_token_that_is_wrong_holds_all_and_costs_nothing(tmp_path, shop, tls, kind):
    server_class, *recipients = KINDS[kind]
    with server_class(tls) as server:
        enqueue(shop, 6, recipients)
        relay = make(tmp_path, shop, server, kind, pace="0s")
        right, server.token = server.token, server.token + "x"
        with relay.running():
            wait_for(lambda: shop.sql("SELECT count(*) FROM outbox_attempts WHERE outcome = 'blocked'")[0][0])
            assert accepted(server) == []
            server.token = right
            shop.wait(delivered=6)
        assert {row[0] for row in shop.sql("SELECT spent FROM outbox_messages")} <= {0, 1}
        assert right not in relay.log()
