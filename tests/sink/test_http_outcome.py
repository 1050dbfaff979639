"""What the end of a request means for the message: every row of the table of statuses, every way a connection can fail,
and that no request is ever sent twice. Proves: N3, S13, S11."""
import email.utils
import socket
import time

import pytest

from support.pgserver import free_port
from support.receiver import Receiver, hang_up, in_turn, raw, reset, status
from support.sinkdrive import Drive, OpenError, drive, needs_kind, shortage
from support.under import PATIENCE

pytestmark = needs_kind("http")

MESSAGE = {"topic": "orders.paid", "payload": {"n": 1}}


@pytest.fixture
def receiver():
    with Receiver() as receiver:
        yield receiver


def options(receiver, **more):
    return {"url": receiver.url(), "allow": "127.0.0.0/8", **more}


def verdict_of(receiver, behave, **more):
    """How one message ended, and that it was sent once."""
    receiver.behave = behave
    verdict, = drive("http", options(receiver, **more), [MESSAGE])
    assert len(receiver.requests) == 1
    return verdict


# ---- statuses

TABLE = {
    "accepted": [200, 201, 202, 204, 226],
    "retry": [408, 409, 425, 500, 502, 503, 504, 507, 520],
    "limited": [429],
    "blocked": [401, 403, 404, 405, 407, 410],
    "terminal": [300, 301, 302, 303, 304, 307, 308, 400, 402, 406, 411, 413, 414, 415, 422, 451, 501, 505],
}


@pytest.mark.parametrize("code, outcome", [(code, outcome) for outcome, codes in TABLE.items() for code in codes])
def test_status(receiver, code, outcome):
    verdict = verdict_of(receiver, status(code, {"Location": "/elsewhere"} if 300 <= code < 400 else {}))
    assert verdict["outcome"] == outcome
    if outcome == "accepted":
        assert verdict["text"] is None
        return
    assert verdict["code"] == "http_%d" % code
    assert verdict["scope"] == "sink"
    assert verdict["unreachable"] == (code in (502, 503, 504))
    assert verdict["not_before_ms"] is None


def test_conflict_without_an_idempotency_key_is_final(receiver):
    assert verdict_of(receiver, status(409), idempotency="none")["outcome"] == "terminal"


@pytest.mark.parametrize("code, outcome", [(429, "limited"), (503, "limited"), (502, "retry"), (500, "retry")])
def test_retry_after_in_seconds(receiver, code, outcome):
    verdict = verdict_of(receiver, status(code, {"Retry-After": "7"}))
    assert (verdict["outcome"], verdict["not_before_ms"], verdict["scope"]) == (outcome, 7000, "sink")


def test_retry_after_as_a_date(receiver):
    date = email.utils.formatdate(time.time() + 100, usegmt=True)
    verdict = verdict_of(receiver, status(429, {"Retry-After": date}))
    assert 90_000 <= verdict["not_before_ms"] <= 100_000


@pytest.mark.parametrize("text, ms", [("999999999", 60_000), ("Fri, 31 Dec 9999 23:59:59 GMT", 60_000), ("0", None),
                                      ("soon", None), ("-5", None), ("Thu, 01 Jan 1970 00:00:00 GMT", None)])
def test_retry_after_is_bounded(receiver, text, ms):
    verdict = verdict_of(receiver, status(429, {"Retry-After": text}), retry_after_max="60s")
    assert (verdict["outcome"], verdict["not_before_ms"]) == ("limited", ms)


@pytest.mark.parametrize("rules, code, outcome", [
    ({"404": "retry"}, 404, "retry"), ({"4xx": "retry"}, 422, "retry"),
    ({"4xx": "retry", "422": "terminal"}, 422, "terminal"), ({"422": "terminal", "4xx": "retry"}, 422, "terminal"),
    ({"302": "accepted"}, 302, "accepted"),
    ({"200": "unknown"}, 200, "unknown"), ({"500": "blocked"}, 500, "blocked"), ({"404": "limited"}, 500, "retry")])
def test_operator_decides_otherwise(receiver, rules, code, outcome):
    more = {"on_status." + name: value for name, value in rules.items()}
    assert verdict_of(receiver, status(code), **more)["outcome"] == outcome


@pytest.mark.parametrize("name, value, text", [
    ("404", "maybe", "must be accepted"), ("6xx", "retry", "is not a status"), ("40", "retry", "is not a status"),
    ("4x4", "retry", "is not a status")])
def test_wrong_rules_are_refused(receiver, name, value, text):
    with pytest.raises(OpenError) as refusal:
        verdict_of(receiver, status(200), **{"on_status." + name: value})
    assert text in str(refusal.value)


# ---- redirects


def test_redirect_is_not_followed(receiver):
    with Receiver() as other:
        verdict = verdict_of(receiver, status(307, {"Location": other.url()}))
        assert (verdict["outcome"], verdict["code"], other.connections) == ("terminal", "http_307", 0)


@pytest.mark.parametrize("code", [307, 308])
def test_redirect_to_the_same_origin_when_wanted(receiver, code):
    receiver.behave = in_turn(status(code, {"Location": "/moved"}), status(200))
    script = [MESSAGE, {"wait": True}, MESSAGE]
    verdicts = drive("http", options(receiver, redirects="same-origin"), script)
    assert [v["outcome"] for v in verdicts] == ["accepted", "accepted"]
    assert [r.path for r in receiver.requests] == ["/hook", "/moved", "/hook"]
    assert receiver.requests[0].body == receiver.requests[1].body
    assert receiver.requests[0].header("webhook-id") == receiver.requests[1].header("webhook-id")


@pytest.mark.parametrize("code", [301, 302, 303])
def test_redirect_that_changes_the_method_is_not_followed(receiver, code):
    verdict = verdict_of(receiver, status(code, {"Location": "/moved"}), redirects="same-origin")
    assert verdict["outcome"] == "terminal"


def test_signature_never_goes_to_another_origin(receiver):
    with Receiver() as other:
        verdict = verdict_of(receiver, status(308, {"Location": other.url()}), redirects="same-origin")
        assert (verdict["outcome"], other.connections) == ("terminal", 0)


def test_redirects_without_end(receiver):
    receiver.behave = status(307, {"Location": "/hook"})
    verdict, = drive("http", options(receiver, redirects="same-origin"), [MESSAGE])
    assert (verdict["outcome"], len(receiver.requests)) == ("terminal", 4)


# ---- nothing was sent


def free_port():
    with socket.create_server(("127.0.0.1", 0)) as server:
        return server.getsockname()[1]


def test_connection_refused():
    url = "http://127.0.0.1:%d/" % free_port()
    verdict, = drive("http", {"url": url, "allow": "127.0.0.0/8"}, [MESSAGE])
    assert (verdict["outcome"], verdict["code"], verdict["unreachable"]) == ("retry", "http_connect", True)


def test_name_that_does_not_resolve():
    verdict, = drive("http", {"url": "http://nowhere.invalid/"}, [MESSAGE], deadline=20)
    assert (verdict["outcome"], verdict["code"], verdict["unreachable"]) == ("retry", "http_resolve", True)


def test_connection_that_does_not_come_about():
    with socket.socket() as server:  # a backlog that is full: the handshake is not answered
        server.bind(("127.0.0.1", 0))
        server.listen(0)
        fillers = [socket.socket() for _ in range(4)]
        for filler in fillers:
            filler.setblocking(False)
            filler.connect_ex(server.getsockname())
        url = "http://127.0.0.1:%d/" % server.getsockname()[1]
        verdict, = drive("http", {"url": url, "allow": "127.0.0.0/8", "connect_timeout": "300ms"}, [MESSAGE])
        for filler in fillers:
            filler.close()
    assert (verdict["outcome"], verdict["code"], verdict["unreachable"]) == ("retry", "http_timeout", True)


# ---- sent, and no verdict


@pytest.mark.parametrize("behave, code", [
    (hang_up, "http_empty"), (reset, "http_receive"), (raw(b"HTTP/1.1 200 OK\r\nContent-Le"), "http_partial"),
    (raw(b"\x00\xff\xfe\x01\x02 what is this\r\n\r\n"), "http_garbage"), (raw(b"220 smtp ready\r\n"), "http_garbage"),
    (raw(b"HTTP/1.1 200 OK\r\nContent-Length: 100\r\n\r\nhalf"), "http_partial"),
    (raw(b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\nzz\r\n"), None),
    (raw(b"HTTP/1.1 999999 OK\r\n\r\n"), None),
])
def test_connection_lost_after_the_request(receiver, behave, code):
    verdict = verdict_of(receiver, behave)
    assert (verdict["outcome"], verdict["unreachable"]) == ("unknown", True)
    assert code is None or verdict["code"] == code


def test_failure_status_counts_though_the_answer_was_cut_off(receiver):
    verdict = verdict_of(receiver, raw(b"HTTP/1.1 400 No\r\nContent-Length: 100\r\n\r\nhalf"))
    assert (verdict["outcome"], verdict["code"]) == ("terminal", "http_400")
    assert "half" in verdict["text"]


def silent(receiver):
    def behave(_, __):
        receiver.stopping.wait(20)
        return False
    return behave


def test_no_answer_in_time(receiver):
    verdict = verdict_of(receiver, silent(receiver), response_timeout="300ms")
    assert (verdict["outcome"], verdict["code"], verdict["unreachable"]) == ("unknown", "http_timeout", True)
    assert 250 <= verdict["elapsed_ms"] < 5000 * PATIENCE


def drip(receiver, head, piece, pause=0.02):
    """Goes on and on."""
    def behave(_, sock):
        sock.sendall(head)
        while not receiver.stopping.wait(pause):
            sock.sendall(piece)
        return False
    return behave


@pytest.mark.parametrize("head, piece", [
    (b"", b"H"), (b"HTTP/1.1 200 OK\r\n", b"X-A: 1\r\n"),
    (b"HTTP/1.1 100 Continue\r\n\r\n", b"HTTP/1.1 100 Continue\r\n\r\n"),
    (b"HTTP/1.1 200 OK\r\nContent-Length: 9999\r\n\r\n", b"x"), (b"HTTP/1.1 200 OK\r\n\r\n", b"x")])
def test_answer_that_drips(receiver, head, piece):
    verdict = verdict_of(receiver, drip(receiver, head, piece), response_timeout="500ms")
    assert verdict["outcome"] == "unknown"
    assert verdict["elapsed_ms"] < 5000 * PATIENCE


def test_headers_without_end(receiver):
    line = b"X-Filler: " + b"x" * 1000 + b"\r\n"
    verdict = verdict_of(receiver, drip(receiver, b"HTTP/1.1 200 OK\r\n", line * 50, 0))
    assert (verdict["outcome"], verdict["code"]) == ("unknown", "http_garbage")


@pytest.mark.parametrize("head, piece", [
    (b"HTTP/1.1 200 ", b"O"), (b"HTTP/1.1 200 OK\r\nX-Long: ", b"a"),
    (b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n1;", b"e"),
    (b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n0\r\nX-Long: ", b"t"),
    (b"", b"HTTP/1.1 103 Early Hints\r\n\r\n"), (b"", b"\r\n")])
def test_line_without_end_is_the_receivers_fault(receiver, head, piece):
    """N5: and not ours, such as a lack of memory: it counts for the breaker."""
    began = time.monotonic()
    verdict = verdict_of(receiver, drip(receiver, head, piece * 10000, 0), response_timeout="30s")
    assert (verdict["outcome"], verdict["unreachable"]) == ("unknown", True)
    assert verdict["code"] in ("http_garbage", "http_receive")
    assert time.monotonic() - began < 5 * PATIENCE


@pytest.mark.parametrize("code, outcome", [(200, "accepted"), (500, "retry")])
def test_no_more_than_the_bound_is_read(receiver, code, outcome):
    sent = []

    def behave(_, sock):
        body = b"0123456789abcdef" * 65536 * 10  # 10 MiB
        sock.sendall(b"HTTP/1.1 %d Yes\r\nContent-Length: %d\r\n\r\n" % (code, len(body)))
        try:
            for at in range(0, len(body), 65536):
                sock.sendall(body[at:at + 65536])
                sent.append(65536)
        except OSError:
            pass
        return False
    verdict = verdict_of(receiver, behave, capture=True)
    assert verdict["outcome"] == outcome
    assert verdict["output"] is None
    assert outcome == "accepted" or "0123456789abcdef" in verdict["text"]
    assert len(verdict["text"] or "") < 4096
    receiver.wait(lambda r: r.open == 0)
    assert sum(sent) < 10 * 2**20


def test_endless_answer(receiver):
    verdict = verdict_of(receiver, drip(receiver, b"HTTP/1.1 200 OK\r\n\r\n", b"x" * 65536, 0))
    assert verdict["outcome"] == "accepted"


def test_error_text_is_printable_and_holds_no_secret(receiver):
    body = b"line 1\nline 2\x00\x1b[31m \xff\xfe you sent: Bearer abcdef123456 (abcdef123456)"
    verdict = verdict_of(receiver, status(500, {}, body), authorization="Bearer abcdef123456")
    assert "line 1 line 2" in verdict["text"]
    assert "abcdef" not in verdict["text"]
    assert all(c.isprintable() for c in verdict["text"])


@pytest.mark.parametrize("body", [
    "Cannot POST {path}", "no route for {url}", '{{"path": "/in/T0001/hookSECRETsecret"}}', "{escaped}",
    '{{"query": {{"key": "a+b/SECRETvalue=="}}}}', '{{"headers": {{"x-api-key": "keySECRETkey"}}}}',
    "unknown key: Token keySECRETkey", "the hook hookSECRETsecret is not known", "{fill}{path}"])
def test_error_text_does_not_repeat_the_request(receiver, body):
    """Some receivers say what they were sent. The address is a secret, and a header may be a key. Proves: N3."""
    path = "/in/T0001/hookSECRETsecret?key=a%2Bb%2FSECRETvalue%3D%3D&v=2"
    url = receiver.url(path)
    said = body.format(path=path, url=url, escaped="Cannot POST " + path.replace("&", "&amp;").replace("/", "\\/"),
                       fill="x" * 2030)  # cut off amidst of it
    verdict = verdict_of(receiver, status(404, {}, said.encode()), url=url,
                         **{"headers.X-Api-Key": "Token keySECRETkey", "headers.X-Team": "blue"})
    assert "SECRET" not in verdict["text"] and "T0001/hook" not in verdict["text"]
    assert verdict["text"].startswith("status 404: " + said[:4])


def test_error_text_keeps_what_is_no_secret(receiver):
    more = {"headers.X-Team": "blue", "headers.X-Env": "test"}
    verdict = verdict_of(receiver, status(404, {}, b"team blue: no /hook in test"), **more)
    assert verdict["text"] == "status 404: team blue: no /hook in test"


# ---- never twice


@pytest.mark.parametrize("end", [hang_up, reset])
@pytest.mark.parametrize("payload", ["{}", ""])
def test_dead_reused_connection_does_not_resend(receiver, end, payload):
    """libcurl by itself would send the second message again, on a fresh connection."""
    receiver.behave = in_turn(status(200), end, status(200))
    message = {"topic": "a", "payload_text": payload, "content_type": "text/plain"}
    with Drive("http", options(receiver)) as sink:
        sink.send(message)
        assert sink.verdict()["outcome"] == "accepted"
        sink.send(message)
        verdict = sink.verdict()
        assert (verdict["outcome"], verdict["code"], verdict["unreachable"]) == ("unknown", "http_resend", True)
        sink.send(message)
        assert sink.verdict()["outcome"] == "accepted"
    assert [r.connection for r in receiver.requests][:2] == [1, 1]
    assert len(receiver.requests) == 3


def test_idle_connections_are_closed(receiver):
    """S10: also when nothing more is sent, and those of a burst when little is."""
    def slow(request, sock):
        time.sleep(0.3)
        return status(204)(request, sock)
    receiver.behave = slow
    with Drive("http", options(receiver, idle="1s")) as sink:
        sink.send({"batch": [MESSAGE] * 8})
        sink.verdicts(8)
        assert receiver.open == 8
        receiver.wait(lambda receiver: receiver.open == 0)
        sink.send({"batch": [MESSAGE] * 8})
        sink.verdicts(8)
        assert receiver.open == 8
        receiver.behave = status(204)
        for _ in range(5):
            time.sleep(0.5)
            sink.send(MESSAGE)
            sink.verdict()
        receiver.wait(lambda receiver: receiver.open <= 2)


def test_idle_connection_that_was_closed_is_not_used(receiver):
    def once(_, sock):
        status(200)(_, sock)
        return False
    receiver.behave = once
    with Drive("http", options(receiver)) as sink:
        for number in (1, 2, 3):
            sink.send(MESSAGE)
            assert sink.verdict()["outcome"] == "accepted"
            receiver.wait(lambda r: r.open == 0)
    assert [r.connection for r in receiver.requests] == [1, 2, 3]


# ---- connections, cancelling, closing, probing


def test_connections_are_used_again(receiver):
    with Drive("http", options(receiver)) as sink:
        for _ in range(50):
            sink.send(MESSAGE)
            assert sink.verdict()["outcome"] == "accepted"
    assert receiver.connections == 1


def test_connections_stay_within_their_cap(receiver):
    most = [0]

    def behave(request, sock):
        most[0] = max(most[0], receiver.open)
        return status(204)(request, sock)
    receiver.behave = behave
    verdicts = drive("http", options(receiver, connections=3), [{"batch": [MESSAGE] * 100}])
    assert [v["outcome"] for v in verdicts] == ["accepted"] * 100
    assert receiver.connections <= 3 and most[0] <= 3


def test_slow_one_does_not_hold_the_others_back(receiver):
    def behave(request, sock):
        if b"slow" in request.body:
            receiver.wait(lambda r: len(r.requests) == 11)
        return status(204)(request, sock)
    receiver.behave = behave
    script = [{"batch": [{"topic": "a", "payload": "slow"}] + [MESSAGE] * 10}]
    verdicts = drive("http", options(receiver), script)
    assert len(verdicts) == 11 and {v["outcome"] for v in verdicts} == {"accepted"}


def test_cancel_in_flight(receiver):
    receiver.behave = in_turn(silent(receiver), status(200))
    with Drive("http", options(receiver)) as sink:
        sink.send(MESSAGE)
        receiver.wait(lambda r: len(r.requests) == 1)
        sink.send({"cancel": 1})
        sink.send(MESSAGE)
        verdict = sink.verdict()
        assert (verdict["handle"], verdict["outcome"]) == (2, "accepted")
        status_, rest = sink.finish()
        assert (status_, rest) == (0, [])


def test_close_in_flight(receiver):
    receiver.behave = silent(receiver)
    with Drive("http", options(receiver)) as sink:
        sink.send({"batch": [MESSAGE] * 5})
        receiver.wait(lambda r: len(r.requests) == 5)
        sink.send({"close": True})
        status_, rest = sink.finish()
    assert status_ in (0, 3) and not [v for v in rest if v["outcome"] != "unanswered"]


def test_probe_sends_nothing(receiver):
    verdict, = drive("http", options(receiver), [{"probe": True}])
    assert (verdict["outcome"], receiver.requests, receiver.connections) == ("accepted", [], 1)
    assert "reachable" in verdict["text"]


def test_probe_of_nobody():
    url = "http://127.0.0.1:%d/" % free_port()
    verdict, = drive("http", {"url": url, "allow": "127.0.0.0/8"}, [{"probe": True}])
    assert (verdict["outcome"], verdict["code"]) == ("retry", "http_connect")


@pytest.mark.parametrize("code, outcome", [(200, "accepted"), (405, "accepted"), (400, "accepted"), (401, "blocked"),
                                           (404, "blocked"), (503, "retry")])
@pytest.mark.parametrize("method", ["head", "options"])
def test_probe_that_asks(receiver, method, code, outcome):
    receiver.behave = status(code)
    verdict, = drive("http", options(receiver, probe=method), [{"probe": True}])
    assert (verdict["outcome"], [r.method for r in receiver.requests]) == (outcome, [method.upper()])
    assert receiver.requests[0].header("webhook-id") is None


def test_a_shortage_of_our_own_costs_nothing():
    """S13: no descriptor is left for a connection. Nobody refused anything, so no attempt is spent and no breaker opens."""
    gone = "http://127.0.0.1:%d/" % free_port()
    shortage("http", {"url": gone, "allow": "127.0.0.1"}, {"topic": "t", "payload": 1})
