"""What slack, telegram and whatsapp have in common: connections that fail, what must never be told, templates, payloads.
Proves: V5, V6, V16, S11, S13.
"""
import json

import pytest

from support.chatservers import SlackServer, TelegramServer, WhatsAppServer, authority
from support.receiver import Receiver, certificate, hang_up, raw, reset
from support.sinkdrive import Drive, drive, has_kind, needs_sinks, shortage
from support.under import PATIENCE

pytestmark = needs_sinks


class SlackHook(SlackServer):
    """The same by webhook."""

    def options(self, **more):
        return self.webhook_options(**more)


KINDS = {"slack": (SlackServer, "slack", "C1"), "webhook": (SlackHook, "slack", "C1"),
         "telegram": (TelegramServer, "telegram", "42"), "whatsapp": (WhatsAppServer, "whatsapp", "491701234567")}


@pytest.fixture(scope="module")
def tls(tmp_path_factory):
    return authority(tmp_path_factory.mktemp("tls"))


@pytest.fixture(params=KINDS)
def chat(request, tls):
    server, kind, to = KINDS[request.param]
    if not has_kind(kind):
        pytest.skip("this build has no sink " + kind)
    with server(tls) as receiver:
        receiver.kind, receiver.to = kind, to
        receiver.secrets = [SlackServer.hook, "HOOKSECRETHOOK"] if request.param == "webhook" else [receiver.token]
        yield receiver


def message(chat, text="hello", **more):
    return {"topic": "orders.paid", "recipient": chat.to, "payload": {"text": text}, **more}


def one(chat, msg=None, **more):
    verdict, = drive(chat.kind, chat.options(pace="0s", **more), [msg or message(chat)])
    return verdict


def text_of(body):
    text = body["text"]
    return text["body"] if isinstance(text, dict) else text


# ---- connections that fail; nothing is ever sent twice

@pytest.mark.parametrize("behave", [hang_up, reset, raw(b"HTTP/1.1 200 OK\r\nContent-Length: 50\r\n\r\n{\"ok\""),
                                    raw(b"HTTP/1.1 200 OK\r\nContent-"), raw(b"SSH-2.0-what\r\n\r\n")])
def test_sent_without_an_answer_is_unknown(chat, behave):
    chat.answers = [behave]
    verdict = one(chat)
    assert (verdict["outcome"], verdict["unreachable"], len(chat.requests)) == ("unknown", True, 1)


def test_dead_reused_connection_does_not_resend(chat):
    with Drive(chat.kind, chat.options(pace="0s", **({"group_pace": "0s"} if chat.kind == "telegram" else {}))) as sink:
        outcomes = []
        for n in range(3):
            if n == 1:
                chat.answers = [hang_up]
            sink.send(message(chat))
            outcomes.append(sink.verdict())
    assert [v["outcome"] for v in outcomes] == ["accepted", "unknown", "accepted"]
    assert (outcomes[1]["code"], len(chat.requests)) == ("http_resend", 3)


def test_no_answer_in_time_is_unknown(chat):
    chat.answers = [lambda request, sock: chat.stopping.wait(10)]
    verdict = one(chat, response_timeout="%dms" % (300 * PATIENCE))
    assert (verdict["outcome"], verdict["code"], len(chat.requests)) == ("unknown", "http_timeout", 1)


def test_cancel_ends_it(chat):
    chat.answers = [lambda request, sock: chat.stopping.wait(10)]
    with Drive(chat.kind, chat.options(pace="0s")) as sink:
        sink.send(message(chat))
        chat.wait(lambda it: it.requests)
        sink.send({"cancel": 1}, message(chat))
        verdict = sink.verdict()
        assert (verdict["handle"], verdict["outcome"]) == (2, "accepted")


def test_nobody_there_is_a_retry(chat):
    options = chat.options()
    chat.close()
    verdict, = drive(chat.kind, options, [message(chat)])
    assert (verdict["outcome"], verdict["code"], verdict["unreachable"]) == ("retry", "http_connect", True)


def test_certificate_of_a_stranger_blocks(chat, tmp_path):
    verdict = one(chat, **{"tls.ca": certificate(tmp_path)[0]})
    assert (verdict["outcome"], verdict["code"], verdict["scope"]) == ("blocked", "http_tls_certificate", "sink")
    assert chat.requests == []


def test_private_address_is_not_dialled(chat):
    options = chat.options()
    del options["allow"]
    verdict, = drive(chat.kind, options, [message(chat)])
    assert (verdict["outcome"], verdict["code"], chat.connections) == ("blocked", "http_address_refused", 0)


def test_redirect_is_not_followed(chat):
    chat.answers = [(307, "", {"Location": "/elsewhere"})]
    assert (one(chat)["outcome"], len(chat.requests)) == ("terminal", 1)


def test_endless_answer_is_unknown(chat):
    chat.answers = [(200, "x" * (2 << 20))]
    verdict = one(chat)
    assert (verdict["outcome"], verdict["code"]) == ("unknown", "http_garbage")


def test_connections_are_kept(chat):
    msgs = [line for _ in range(5) for line in (message(chat), {"wait": True})]
    verdicts = drive(chat.kind, chat.options(pace="0s"), msgs)
    assert ({v["outcome"] for v in verdicts}, chat.connections) == ({"accepted"}, 1)


def test_a_shortage_of_our_own_costs_nothing(chat):
    """S13: no descriptor is left for a connection. Nobody refused anything, so no attempt is spent and no breaker opens."""
    chat.close()
    assert shortage(chat.kind, chat.options(pace="0s"), message(chat))["code"] == "http_connect"


def test_proxy_of_the_environment_is_not_used(chat):
    """It would be dialled instead of the address that was checked, and see who is written to."""
    with Receiver() as proxy:
        env = {name: proxy.url("") for name in ("http_proxy", "https_proxy", "HTTPS_PROXY", "all_proxy", "ALL_PROXY")}
        verdict, = drive(chat.kind, chat.options(pace="0s"), [message(chat)], env=env)
        assert (verdict["outcome"], proxy.connections, len(chat.requests)) == ("accepted", 0, 1)


def test_large_message_goes_without_asking(chat):
    """libcurl would ask first (Expect: 100-continue), and wait a second for an answer that may never come."""
    text = {"type": "text", "text": {"body": "hello"}} if chat.kind == "whatsapp" else {"text": "hello"}
    verdict = one(chat, {"topic": "a", "recipient": chat.to, "payload": {**text, "more": "x" * 1200000}}, raw=True)
    assert (verdict["outcome"], chat.requests[0].header("Expect")) == ("accepted", None)
    assert len(chat.requests[0].body) > 1200000


# ---- what must never be told

@pytest.mark.parametrize("status", [200, 302, 400, 401, 404, 500])
def test_secrets_are_never_told(chat, status):
    """A receiver that repeats all it was sent, in every place we look at."""
    said = "you said %s" % " ".join(chat.secrets)
    error = {"ok": False, "error": said, "description": said, "needed": said, "response_metadata": {"messages": [said]}}
    if chat.kind == "whatsapp":
        error = {"error": {"message": said, "code": 100, "error_data": {"details": said}}}
    for body in (error, said):
        chat.answers = [(status, body), (status, body)]
        with Drive(chat.kind, chat.options(pace="0s")) as sink:
            sink.send(message(chat), {"wait": True}, {"probe": True})
            _, verdicts = sink.finish()
            told = json.dumps(verdicts) + "".join(sink.log)
        for secret in chat.secrets:
            assert secret not in told


def test_secret_where_what_is_said_was_cut(chat):
    if chat.kind == "whatsapp":
        answers = lambda said: chat.error(100, said, said)  # noqa: E731
    else:
        answers = lambda said: (400, {"ok": False, "error": said, "description": said, "needed": said})  # noqa: E731
    secret = max(chat.secrets, key=len)
    chat.answers = [answers("x" * (1024 - len(secret) + 3) + secret)]
    assert secret[:-4] not in one(chat)["text"]


def test_secrets_are_not_in_failures(chat):
    options = chat.options()
    chat.close()
    verdict, = drive(chat.kind, options, [message(chat)])
    assert not [secret for secret in chat.secrets if secret in json.dumps(verdict)]


def test_what_is_said_is_one_printable_line(chat):
    if chat.kind == "whatsapp":
        answer = chat.error(100, "a\nb\x1b[31m")
    else:
        answer = (400, {"ok": False, "error": "a\nb\x1b[31m", "description": "a\nb\x1b[31m", "error_code": 400})
    chat.answers = [answer]
    text = one(chat)["text"]
    assert "\n" not in text and "\x1b" not in text


# ---- those who are early

def paced(chat, **more):
    pace = "%dms" % (250 * PATIENCE)
    return chat.options(**{"pace": pace, "pace_burst": 1, "hold": "%ds" % (2 * PATIENCE),
                           **({"group_pace": pace} if chat.kind == "telegram" else {}), **more})


def test_who_is_a_little_early_waits(chat):
    """The server would refuse what comes too early; the first one has a handshake to make, so it allows for that."""
    chat.spacing = 0.1 / PATIENCE  # a slow handshake takes most of the pause
    verdicts = drive(chat.kind, paced(chat), [{"batch": [message(chat, "n%d" % n) for n in range(4)]}])
    assert [v["outcome"] for v in verdicts] == ["accepted"] * 4
    assert [v["elapsed_ms"] >= 240 * PATIENCE * n for n, v in enumerate(verdicts)] == [True] * 4
    assert [text_of(body) for body in chat.sent()] == ["n0", "n1", "n2", "n3"]


def test_who_is_very_early_is_given_back(chat):
    options = paced(chat, hold="%dms" % (600 * PATIENCE))
    verdicts = drive(chat.kind, options, [{"batch": [message(chat, "n%d" % n) for n in range(6)]}])
    late = [v for v in verdicts if v["outcome"] == "not_sent"]
    assert [v["handle"] for v in late] == [4, 5, 6] and len(chat.requests) == 3
    assert all(due - 100 < v["not_before_ms"] / PATIENCE <= due for v, due in zip(late, (750, 1000, 1250)))


def test_cancel_and_close_of_those_who_wait(chat):
    with Drive(chat.kind, paced(chat)) as sink:
        sink.send({"batch": [message(chat, "n%d" % n) for n in range(5)]}, {"cancel": 2})
        assert {sink.verdict()["handle"] for _ in range(2)} == {1, 3}
        sink.send({"close": True})
        assert sink.finish()[0] == 3
    assert "n1" not in [text_of(body) for body in chat.sent()]


# ---- payloads and templates

def test_plain_text_is_the_text(chat):
    assert one(chat, {"topic": "a", "recipient": chat.to, "content_type": "text/plain; charset=utf-8",
                      "payload_text": "grüße"})["outcome"] == "accepted"
    assert one(chat, {"topic": "a", "recipient": chat.to, "payload": "a string"})["outcome"] == "accepted"
    assert [text_of(body) for body in chat.sent()] == ["grüße", "a string"]


@pytest.mark.parametrize("more", [
    {"payload_hex": "00ff", "content_type": "application/octet-stream"}, {"payload_text": "{\"text\": "},
    {"payload_hex": "c328", "content_type": "text/plain"}, {"payload_hex": "610062", "content_type": "text/plain"}])
def test_payload_without_a_text(chat, more):
    verdict = one(chat, {"topic": "a", "recipient": chat.to, **more})
    assert (verdict["outcome"], verdict["code"], chat.requests) == ("terminal", chat.kind + "_payload", [])


def test_template(chat):
    template = "Order {{order.id}} of {{order.lines.0.what}} for {{@subject|you}}"
    payload = {"order": {"id": 7, "lines": [{"what": "tea"}]}}
    assert one(chat, {"topic": "a", "recipient": chat.to, "payload": payload}, template=template)["outcome"] == "accepted"
    assert text_of(chat.sent()[0]) == "Order 7 of tea for you"
    verdict = one(chat, {"topic": "a", "recipient": chat.to, "payload": {}}, template=template)
    assert (verdict["outcome"], verdict["code"], len(chat.requests)) == ("terminal", chat.kind + "_template", 1)
    assert "order.id" in verdict["text"]


def test_json_template(chat):
    """A value stays inside of its string, and cannot choose the recipient."""
    text = '{"body": "{{say}}"}' if chat.kind == "whatsapp" else '"{{say}}"'
    template = '{"text": %s, "marks": [{{n}}]}' % text
    say = 'x", "channel": "C2", "chat_id": 43, "to": "1", "y": "'
    assert one(chat, {"topic": "a", "recipient": chat.to, "payload": {"say": say, "n": 5}}, json_template=template)[
        "outcome"] == "accepted"
    body, = chat.sent()
    assert (text_of(body), body["marks"], "y" in body) == (say, [5], False)
    verdict = one(chat, {"topic": "a", "recipient": chat.to, "payload": {}}, json_template="[1]")
    assert (verdict["outcome"], verdict["code"]) == ("terminal", chat.kind + "_template")


def test_raw_must_be_an_object(chat):
    verdict = one(chat, {"topic": "a", "recipient": chat.to, "payload": [1]}, raw=True)
    assert (verdict["outcome"], verdict["code"], chat.requests) == ("terminal", chat.kind + "_payload", [])


def test_close_with_messages_out(chat):
    chat.answers = [lambda request, sock: chat.stopping.wait(10)]
    with Drive(chat.kind, chat.options(pace="0s")) as sink:
        sink.send(message(chat))
        chat.wait(lambda it: it.requests)
        sink.send({"close": True})
        status, _ = sink.finish()
        assert status == 3
