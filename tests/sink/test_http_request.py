"""What the http sink puts on the wire: body, signature, metadata, CloudEvents, trace context, and nothing that a
message smuggles in. Proves: N3, N8, M19."""
import base64
import hashlib
import hmac
import json
import os
import time

import pytest

from support.receiver import Receiver, status
from support.sinkdrive import OpenError, drive, needs_kind

pytestmark = needs_kind("http")

ID = "01890a5d-ac96-774b-bcce-b302099a8057"
LOOPBACK = {"allow": ["127.0.0.0/8", "::1"]}
TRACE = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"


@pytest.fixture
def receiver():
    with Receiver() as receiver:
        yield receiver


def post(receiver, message, **options):
    """One message that is accepted; the request it became."""
    message = {"topic": "orders.paid", "payload": {"n": 1}, "id": ID, **message}
    verdicts = drive("http", {"url": receiver.url(), **LOOPBACK, **options}, [message])
    assert [v["outcome"] for v in verdicts] == ["accepted"], verdicts
    assert len(receiver.requests) == 1
    return receiver.requests[0]


def refuse(receiver, message, **options):
    """One message that is dead before a request is made."""
    message = {"topic": "orders.paid", "payload": {}, "id": ID, **message}
    verdict, = drive("http", {"url": receiver.url(), **LOOPBACK, **options}, [message])
    assert (verdict["outcome"], receiver.requests) == ("terminal", [])
    return verdict


def secret():
    key = os.urandom(32)
    return key, "whsec_" + base64.b64encode(key).decode()


def signature(key, request):
    text = "%s.%s." % (request.header("webhook-id"), request.header("webhook-timestamp"))
    return "v1," + base64.b64encode(hmac.new(key, text.encode() + request.body, hashlib.sha256).digest()).decode()


# ---- body and method


@pytest.mark.parametrize("method", ["POST", "PUT", "PATCH"])
def test_payload_is_the_body(receiver, method):
    request = post(receiver, {"payload": {"n": 1, "text": "Grüße"}}, method=method)
    assert (request.method, request.path, request.protocol) == (method, "/hook", "HTTP/1.1")
    assert json.loads(request.body) == {"n": 1, "text": "Grüße"}
    assert request.header("content-type") == "application/json"
    assert request.header("user-agent") == "outbox"
    assert request.header("content-length") == str(len(request.body))
    assert request.header("expect") is None


def test_bytes_of_any_type(receiver):
    request = post(receiver, {"payload_hex": "00ff0d0a42", "content_type": "application/x-thing"})
    assert (request.body, request.header("content-type")) == (b"\x00\xff\r\nB", "application/x-thing")


@pytest.mark.parametrize("size", [0, 1, 65535, 65536, 70000, 3_000_000])
def test_sizes(receiver, size):
    request = post(receiver, {"payload_text": "x" * size, "content_type": "text/plain"})
    assert len(request.body) == size
    assert request.header("expect") is None and request.header("transfer-encoding") is None


def test_configured_headers(receiver):
    request = post(receiver, {}, **{"headers.X-Team": "red", "headers.Accept": "application/json",
                                    "authorization": "Bearer abc", "user_agent": "shop/1"})
    assert (request.header("x-team"), request.header("accept")) == ("red", "application/json")
    assert (request.header("authorization"), request.header("user-agent")) == ("Bearer abc", "shop/1")


# ---- signature


def test_signature_of_standard_webhooks(receiver):
    key, text = secret()
    before = int(time.time())
    request = post(receiver, {"payload": {"a": [1, 2]}}, secret=text)
    assert request.header("webhook-id") == ID
    assert before <= int(request.header("webhook-timestamp")) <= time.time()
    assert request.header("webhook-signature") == signature(key, request)


def test_every_message_is_signed_anew(receiver):
    key, text = secret()
    script = [{"topic": "a", "payload": {"n": n}} for n in range(20)]
    verdicts = drive("http", {"url": receiver.url(), **LOOPBACK, "secret": text, "format": "structured"}, script)
    assert {v["outcome"] for v in verdicts} == {"accepted"}
    assert len({r.header("webhook-id") for r in receiver.requests}) == 20
    for request in receiver.requests:
        assert request.header("webhook-signature") == signature(key, request)


def test_rotation_signs_with_both(receiver):
    (old, old_text), (new, new_text) = secret(), secret()
    request = post(receiver, {}, secret=[old_text, new_text])
    assert request.header("webhook-signature").split(" ") == [signature(old, request), signature(new, request)]


def test_without_a_secret_there_is_no_signature(receiver):
    request = post(receiver, {})
    assert request.header("webhook-signature") is None
    assert request.header("webhook-id") == ID


@pytest.mark.parametrize("bad", ["geheim", "whsec_", "whsec_!!!!", "whsec_" + base64.b64encode(b"x" * 23).decode(),
                                 "whsec_" + base64.b64encode(b"x" * 65).decode(), "whsec_QUJD\nQUJD"])
def test_bad_secret_is_refused_and_not_repeated(receiver, bad):
    with pytest.raises(OpenError) as refusal:
        post(receiver, {}, secret=bad)
    assert "whsec_ followed by base64" in str(refusal.value)
    assert bad == "whsec_" or bad not in str(refusal.value)


# ---- who it is


def test_metadata_for_idempotent_receivers(receiver):
    request = post(receiver, {"key": "order-7", "seq": 3, "dedupe_key": "order-7/paid", "namespace": "shop",
                              "tenant": "6f9c2f5e-0000-4000-8000-000000000001", "attempt": 2, "subject": "order 7"})
    assert {name: request.header("outbox-" + name) for name in
            ("id", "key", "seq", "dedupe-key", "tenant", "attempt", "topic", "namespace", "subject")} == {
        "id": ID, "key": "order-7", "seq": "3", "dedupe-key": "order-7/paid", "attempt": "2", "topic": "orders.paid",
        "tenant": "6f9c2f5e-0000-4000-8000-000000000001", "namespace": "shop", "subject": "order%207"}


@pytest.mark.parametrize("mode, dedupe, expected", [
    ("id", "d-1", '"%s"' % ID), ("dedupe", "d-1", '"d-1"'), ("dedupe", None, '"%s"' % ID), ("none", "d-1", None),
    ("dedupe", 'a"b\\c', '"a\\"b\\\\c"'), ("dedupe", "Schlüssel", '"%s"' % ID)])
def test_idempotency_key_is_a_structured_string(receiver, mode, dedupe, expected):
    message = {"dedupe_key": dedupe} if dedupe else {}
    assert post(receiver, message, idempotency=mode).header("idempotency-key") == expected


# ---- CloudEvents, trace context


def test_cloudevents_binary(receiver):
    request = post(receiver, {"subject": "naïve order"}, format="binary", source="https://shop.example/")
    assert request.header("ce-id") == ID
    assert (request.header("ce-specversion"), request.header("ce-type")) == ("1.0", "orders.paid")
    assert request.header("ce-source") == "https://shop.example/"
    assert request.header("ce-subject") == "na%C3%AFve%20order"
    assert request.header("content-type") == "application/json"
    assert json.loads(request.body) == {"n": 1}


def test_cloudevents_structured(receiver):
    key, text = secret()
    request = post(receiver, {}, format="structured", source="/shop", secret=text)
    event = json.loads(request.body)
    assert request.header("content-type").startswith("application/cloudevents+json")
    assert (event["id"], event["source"], event["type"], event["data"]) == (ID, "/shop", "orders.paid", {"n": 1})
    assert request.header("webhook-signature") == signature(key, request)


def test_trace_context_goes_on(receiver):
    request = post(receiver, {"headers": {"traceparent": TRACE, "tracestate": "vendor=1"}})
    assert (request.header("traceparent"), request.header("tracestate")) == (TRACE, "vendor=1")


def test_trace_context_of_attempts(receiver):
    """N8: a trace that was made is one trace with a parent per attempt; one that came with the message stays as it is."""
    made = {"topic": "orders.paid", "payload": {}, "id": ID}
    own = {**made, "headers": {"traceparent": TRACE}}
    script = [{**message, "attempt": attempt} for message in (made, own) for attempt in (1, 2)]
    for message in script:
        drive("http", {"url": receiver.url(), **LOOPBACK, "trace": "generate"}, [message])
    first, second, *passed = [request.header("traceparent").split("-") for request in receiver.requests]
    assert first[:2] == second[:2] == ["00", ID.replace("-", "")] and first[2] != second[2]
    assert ["-".join(parts) for parts in passed] == [TRACE, TRACE]


@pytest.mark.parametrize("source", ["", "two words", "a\tb"])
def test_a_source_that_is_none(source):
    with pytest.raises(OpenError, match="source is"):
        drive("http", {"url": "http://localhost/", "format": "binary", "source": source}, [])


def test_bad_trace_context_is_dropped_not_the_message(receiver):
    request = post(receiver, {"headers": {"traceparent": "00-zz", "tracestate": "vendor=1"}})
    assert request.header("traceparent") is None and request.header("tracestate") is None


# ---- what a message may not do


def test_message_headers_go_along(receiver):
    request = post(receiver, {"headers": {"X-Colour": "blau–weiß", "X-Empty": ""}})
    assert (request.header("x-colour"), request.header("x-empty")) == ("blau–weiß", "")


@pytest.mark.parametrize("name, value", [
    ("X-A", "b\r\nX-Evil: 1"), ("X-A", "b\nX-Evil: 1"), ("X-A", "b\rc"), ("X-A: b\r\nX-Evil", "1"), ("X A", "1"),
    ("", "1"), ("X-A;", "1"), ("Xä", "1")])
def test_header_injection_is_refused(receiver, name, value):
    verdict = refuse(receiver, {"headers": {name: value}})
    assert verdict["code"] == "header_invalid"


@pytest.mark.parametrize("headers", [r'{"X-A": "nul\u0000byte"}', '{"X-A": 1}', "[]", "{", '{"X-A": "1", "X-A": "2"}'])
def test_headers_that_are_none_are_refused(receiver, headers):
    refuse(receiver, {"headers": headers})


@pytest.mark.parametrize("field", ["key", "dedupe_key", "subject", "correlation_id", "content_type"])
def test_injection_by_other_fields_is_refused(receiver, field):
    refuse(receiver, {field: "a\r\nX-Evil: 1"}, format="binary")


def test_headers_that_take_a_request_apart_stay_here(receiver):
    evil = {"Host": "evil.example", "Content-Length": "0", "Transfer-Encoding": "chunked", "Connection": "close",
            "Authorization": "Basic eA==", "Cookie": "a=b", "webhook-signature": "v1,forged", "webhook-id": "other",
            "Idempotency-Key": "other", "Content-Type": "text/html", "X-Team": "blue", "Expect": "100-continue",
            "Proxy-Authorization": "x", "Upgrade": "h2c", "outbox-id": "other", "User-Agent": "evil"}
    request = post(receiver, {"headers": evil}, **{"headers.X-Team": "red"})
    assert request.header("host") == "127.0.0.1:%d" % receiver.port
    assert json.loads(request.body) == {"n": 1}
    for name in ("transfer-encoding", "connection", "authorization", "cookie", "webhook-signature", "expect",
                 "proxy-authorization", "upgrade"):
        assert request.header(name) is None, name
    assert (request.header("webhook-id"), request.header("outbox-id")) == (ID, ID)
    assert (request.header("content-type"), request.header("x-team")) == ("application/json", "red")
    assert request.header("user-agent") == "outbox"


@pytest.mark.parametrize("options, text", [
    ({"headers.X-A": "b\r\nc"}, "control characters"), ({"headers.Content-Length": "1"}, "set by the sink"),
    ({"headers.X A": "1"}, "not a header name"), ({"authorization": "a\nb"}, "control characters")])
def test_configured_headers_are_checked(receiver, options, text):
    with pytest.raises(OpenError) as refusal:
        post(receiver, {}, **options)
    assert text in str(refusal.value)


# ---- what comes back


def test_reference_from_a_header(receiver):
    receiver.behave = status(200, {"X-Request-Id": "r-42"})
    verdict, = drive("http", {"url": receiver.url(), **LOOPBACK, "reference": "x-request-id"}, [{"topic": "a"}])
    assert verdict["reference"] == "r-42"


@pytest.mark.parametrize("pointer, expected", [("/data/0/id", "e-1"), ("/n", "7"), ("/a~1b~0c", "x"), ("/none", None),
                                               ("/data", None)])
def test_reference_from_json(receiver, pointer, expected):
    receiver.behave = status(200, {}, b'{"data": [{"id": "e-1"}], "n": 7, "a/b~c": "x"}')
    verdict, = drive("http", {"url": receiver.url(), **LOOPBACK, "reference": pointer}, [{"topic": "a"}])
    assert (verdict["outcome"], verdict["reference"]) == ("accepted", expected)


def test_answer_is_captured_when_it_is_json(receiver):
    options = {"url": receiver.url(), **LOOPBACK, "capture": True}
    receiver.behave = status(200, {}, b'{"ok": true}')
    assert json.loads(drive("http", options, [{"topic": "a"}])[0]["output"]) == {"ok": True}
    receiver.behave = status(200, {}, b"<html>")
    assert drive("http", options, [{"topic": "a"}])[0]["output"] is None
