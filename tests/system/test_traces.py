"""Traces: the spans of a relay, at a collector that is well, slow, busy, broken or away.

Proves: N13 (time in the outbox and each attempt as spans), N8 (the receiver's trace context), N4 (a collector never holds up a
delivery), S13 (secrets of URLs are not told).
"""
import json
import time

import pytest

from support.database import run_cli
from support.otlp import Collector, read_request
from support.pgserver import free_port
from support.receiver import Receiver, in_turn, status
from support.relay import Relay, wait_for
from support.shop import SqliteShop
from support.sqlite_file import Outbox

TRACE, PARENT = "4bf92f3577b34da6a3ce929d0e0e4736", "00f067aa0ba902b7"
GIVEN = "00-%s-%s-01" % (TRACE, PARENT)
FAST = {"retry": {"base": "10ms", "cap": "20ms"}}


def headers(traceparent, **more):
    return json.dumps({"traceparent": traceparent, **more})


@pytest.fixture
def collector():
    with Collector() as it:
        yield it


def make(tmp_path, shop, endpoint, sink=None, admin=False, **traces):
    return Relay(tmp_path, shop.url, {"out": sink or {"kind": "null"}}, [{"sink": "out"}], admin=admin,
                 traces={"endpoint": endpoint, "interval": "50ms", **traces})


def by_name(spans):
    found = {}
    for span in spans:
        found.setdefault(span["name"], []).append(span)
    return found


def test_a_message_and_its_attempts_are_spans(shop, tmp_path, collector):
    """N13 N8 S13: the producer's trace, a span for the outbox with the retry as an event, one per attempt, the receiver below."""
    with Receiver(in_turn(status(503), status(202))) as receiver:
        sink = {"kind": "http", "url": receiver.url("/hook/s3cret?token=s3cret"), "allow": ["127.0.0.0/8"], **FAST}
        (sent,) = shop.enqueue(headers=headers(GIVEN, tracestate="a=1"), topic="orders.paid", correlation_id="req-7")
        make(tmp_path, shop, collector.endpoint, sink, headers={"x-api-key": "abc"}).until_empty()
        spans = collector.spans()
        assert [span["trace"] for span in spans] == [TRACE] * 3 and [span["state"] for span in spans] == ["a=1"] * 3
        found = by_name(spans)
        (outbox,), (first, second) = found["outbox orders.paid"], found["POST"]
        assert outbox["parent"] == PARENT and outbox["kind"] == "internal" and outbox["status"] == "unset"
        assert outbox["attributes"]["messaging.message.id"] == sent.id
        assert outbox["attributes"]["messaging.message.conversation_id"] == "req-7"
        assert outbox["attributes"]["outbox.attempts"] == 2
        (event,) = outbox["events"]
        assert event["attributes"]["error.type"] == "http_503" and event["attributes"]["outbox.attempt"] == 1
        for attempt in (first, second):
            assert attempt["parent"] == outbox["id"] and attempt["kind"] == "client" and attempt["links"] == []
            assert attempt["begin"] <= attempt["end"]
            assert attempt["attributes"]["url.full"] == "http://127.0.0.1:%d/REDACTED" % receiver.port
            assert attempt["attributes"]["server.address"] == "127.0.0.1"
            assert attempt["attributes"]["server.port"] == receiver.port
            assert attempt["attributes"]["http.request.method"] == "POST"
        assert (first["status"], first["attributes"]["error.type"]) == ("error", "503") and "http_503" in first["message"]
        assert first["attributes"]["http.response.status_code"] == 503
        assert (second["status"], second["attributes"]["http.response.status_code"]) == ("unset", 202)
        assert second["attributes"]["http.request.resend_count"] == 1
        assert [request.header("traceparent") for request in receiver.requests] == [
            "00-%s-%s-01" % (TRACE, attempt["id"]) for attempt in (first, second)]
        assert {request.header("tracestate") for request in receiver.requests} == {"a=1"}
    assert {request.path for request in collector.requests} == {"/v1/traces"}
    assert {request.header("x-api-key") for request in collector.requests} == {"abc"}
    assert {request.header("content-type") for request in collector.requests} == {"application/x-protobuf"}
    assert not any(b"s3cret" in request.body for request in collector.requests)
    resource, _ = read_request(collector.requests[0].body)[0]
    assert resource["service.name"] == "outbox" and resource["service.instance.id"]


@pytest.mark.parametrize("given", [None, headers("garbage"), headers(GIVEN.replace(TRACE, "0" * 32))])
def test_without_a_context_the_message_begins_a_trace(shop, tmp_path, collector, given):
    """N13: its id is the message's, and attempts link to its span."""
    (sent,) = shop.enqueue(headers=given)
    make(tmp_path, shop, collector.endpoint).until_empty()
    found = by_name(collector.spans())
    (outbox,), (attempt,) = found["outbox orders"], found["deliver out"]
    assert outbox["trace"] == attempt["trace"] == sent.id.replace("-", "")
    assert outbox["parent"] is None and attempt["parent"] == outbox["id"]
    assert attempt["links"] == [(outbox["trace"], outbox["id"])]


def test_flags_and_the_share_decide(shop, tmp_path, collector):
    """N13 N8: what its producer does not record is passed on as it is; sample holds for the others."""
    with Receiver() as receiver:
        sink = {"kind": "http", "url": receiver.url(), "allow": ["127.0.0.0/8"]}
        shop.enqueue(headers=headers(GIVEN[:-2] + "00"), topic="unsampled")
        (root,) = shop.enqueue(topic="root")
        shop.enqueue(headers=headers(GIVEN), topic="sampled")
        make(tmp_path, shop, collector.endpoint, sink, sample=0).until_empty()
        assert sorted(span["name"] for span in collector.spans()) == ["POST", "outbox sampled"]
        got = {request.header("outbox-topic"): request.header("traceparent") for request in receiver.requests}
    assert got["unsampled"] == GIVEN[:-2] + "00"
    assert got["root"].startswith("00-" + root.id.replace("-", "")) and got["root"].endswith("-00")
    assert got["sampled"].startswith("00-" + TRACE) and got["sampled"].endswith("-01") and got["sampled"] != GIVEN


def test_a_dead_letter_is_an_error(shop, tmp_path, collector):
    """N13: the outbox's span says why."""
    shop.enqueue(headers=headers(GIVEN))
    sink = {"kind": "stub", "script": "terminal:no_such_user"}
    make(tmp_path, shop, collector.endpoint, sink).until_empty()
    found = by_name(collector.spans())
    (outbox,), (attempt,) = found["outbox orders"], found["deliver out"]
    assert outbox["status"] == attempt["status"] == "error"
    assert outbox["attributes"]["error.type"] == attempt["attributes"]["error.type"] == "no_such_user"
    assert outbox["attributes"]["outbox.outcome"] == "failed"


def test_every_span_of_many_messages_arrives(shop, tmp_path, collector):
    """N13: none twice, none missing, each attempt below its message; in batches."""
    count = 2000
    shop.enqueue(count, keys=("a", "b", None, None))
    make(tmp_path, shop, collector.endpoint).until_empty(timeout=120)
    spans = collector.spans()
    assert len(spans) == len({(span["trace"], span["id"]) for span in spans}) == 2 * count
    outbox = {span["id"] for span in spans if span["name"] == "outbox orders"}
    assert len(outbox) == count and {span["parent"] for span in spans if span["name"] != "outbox orders"} == outbox
    assert len(collector.requests) < count / 10


# ---- a collector that is not well ----


def test_away_it_costs_spans_and_no_delivery(shop, tmp_path):
    """N13 N4: the queue is full, the rest is dropped and counted, messages are delivered; the relay ends within its limit."""
    shop.enqueue(300)
    relay = make(tmp_path, shop, "http://127.0.0.1:%d" % free_port(), admin=True, queue=100, flush="200ms")
    with relay.running():
        shop.wait(delivered=300)
        wait_for(lambda: relay.metric("outbox_spans_dropped_total") == 500)
        wait_for(lambda: relay.logged("traces not exported: trying again"))
        assert relay.metric("outbox_spans_exported_total") == 0
    assert relay.log().count("traces not exported") == 1


def test_busy_it_is_asked_again_when_it_says(shop, tmp_path, collector):
    """N13: 429 with Retry-After, 503, a connection that breaks: the same request again, nothing lost, nothing twice."""
    collector.behave = in_turn(status(429, {"Retry-After": "1"}), status(503, {"Retry-After": "1"}), lambda *_: False,
                               status(200))
    shop.enqueue(5)
    relay = make(tmp_path, shop, collector.endpoint, admin=True)
    began = time.monotonic()
    with relay.running():
        wait_for(relay.started)
        wait_for(lambda: relay.metric("outbox_spans_exported_total") == 10)
    assert time.monotonic() - began >= 2
    assert len({request.body for request in collector.requests[:4]}) == 1
    assert relay.logged("traces exported again")


@pytest.mark.parametrize("code", [400, 401, 404, 500, 302])
def test_what_it_refuses_is_not_tried_again(tmp_path, collector, code):
    """N13: counted as failed."""
    shop = SqliteShop(Outbox.create(tmp_path / "shop.db"))  # the store does not matter here
    collector.behave = status(code, {"Location": collector.url("/elsewhere")})
    shop.enqueue(3)
    relay = make(tmp_path, shop, collector.endpoint, admin=True)
    with relay.running():
        wait_for(relay.started)
        wait_for(lambda: relay.metric("outbox_spans_failed_total") == 6)
    assert relay.logged("HTTP status %d" % code) and {request.path for request in collector.requests} == {"/v1/traces"}


def test_what_it_rejects_in_part_is_counted(shop, tmp_path, collector):
    """N13: partial success: 2 spans rejected, and why."""
    collector.behave = status(200, body=b"\x0a\x09\x08\x02\x12\x05quota")
    shop.enqueue(3)
    relay = make(tmp_path, shop, collector.endpoint, admin=True, interval="1s")
    with relay.running():
        wait_for(relay.started)
        wait_for(lambda: relay.metric("outbox_spans_exported_total") == 4)
        assert relay.metric("outbox_spans_failed_total") == 2
    assert relay.logged("quota")


def test_slow_it_holds_up_nothing(shop, tmp_path, collector):
    """N13 N4: a request hangs until its timeout; messages are delivered meanwhile, and the relay ends within `flush`."""
    def hang(_request, _sock):
        collector.stopping.wait(60)
        return False
    collector.behave = hang
    relay = make(tmp_path, shop, collector.endpoint, timeout="60s", flush="300ms", interval="10ms")
    with relay.running():
        shop.enqueue(1)
        wait_for(lambda: collector.requests)
        shop.enqueue(100)
        shop.wait(delivered=101)
        began = time.monotonic()
        relay.stop()
        assert time.monotonic() - began < 30  # not the 60 s of its timeout
        relay.start()  # `running` stops it
        wait_for(relay.started)


def test_the_last_spans_are_sent_at_the_end(shop, tmp_path, collector):
    """N13: flushed, though a batch is not full and its time has not come."""
    shop.enqueue(1)
    relay = make(tmp_path, shop, collector.endpoint, interval="1h")
    with relay.running():
        shop.wait(delivered=1)
        assert not collector.requests
    assert len(collector.spans()) == 2


# ---- configuration ----


def test_doctor_asks_the_collector(tmp_path, collector):
    """N13 N6: well, refusing, away; it sends no span."""
    def found(endpoint, code):
        config = tmp_path / "outbox.yaml"
        config.write_text(json.dumps({"store": "sqlite:%s" % (tmp_path / "a.db"), "sinks": {"out": {"kind": "null"}},
                                      "routes": [{"sink": "out"}], "traces": {"endpoint": endpoint}}))
        done = run_cli("doctor", "--config", config, "--json", check=False)
        assert done.returncode == code, done.stdout + done.stderr
        return next(row for row in json.loads(done.stdout)["findings"] if row["what"] == "traces")
    run_cli("init", "sqlite:%s" % (tmp_path / "a.db"))
    assert found(collector.endpoint, 0)["level"] == "ok" and collector.spans() == []
    collector.behave = status(401)
    refused = found(collector.endpoint, 1)
    assert "401" in refused["text"] and "traces.headers" in refused["todo"]
    away = found("http://127.0.0.1:%d" % free_port(), 1)
    assert away["level"] == "error" and "running" in away["todo"]


@pytest.mark.parametrize("traces, says", [
    ({"endpoint": "ftp://host"}, "must be a URL of http or https"),
    ({"endpoint": "http://me:pw@host"}, "must not contain a user or password"),
    ({"endpoint": "http://host", "sample": "2"}, "a share from 0 to 1"),
    ({"endpoint": "http://host", "headers": {"a b": "x"}}, "not a valid header"),
    ({"endpoint": "http://host", "headers": {"a": "x\r\nb: y"}}, "not a valid header"),
    ({"endpoint": "http://host", "headers": "x"}, "must be a map"),
    ({"endpoint": "http://host", "tls": {"ca": "/no/such/file"}}, "cannot be read"),
    ({"url": "http://host"}, "endpoint"),
])
def test_mistakes_are_told(tmp_path, traces, says):
    """N13: and no secret is repeated."""
    config = tmp_path / "outbox.yaml"
    config.write_text(json.dumps({"store": "sqlite:a.db", "sinks": {"out": {"kind": "null"}}, "routes": [{"sink": "out"}],
                                  "traces": traces}))
    done = run_cli("validate", str(config), check=False)
    assert done.returncode != 0 and says in done.stdout + done.stderr, done.stdout + done.stderr
    assert "pw" not in done.stdout + done.stderr


def test_headers_are_secrets(tmp_path):
    """N13 S13: from a file, and never shown."""
    (tmp_path / "key").write_text("tok-123\n")
    config = tmp_path / "outbox.yaml"
    config.write_text(json.dumps({"store": "sqlite:a.db", "sinks": {"out": {"kind": "null"}}, "routes": [{"sink": "out"}],
                                  "traces": {"endpoint": "http://host", "headers": {"authorization": "file:%s" % (tmp_path / "key")}}}))
    shown = run_cli("config", "--config", str(config)).stdout
    assert "traces.headers.authorization" in shown and "tok-123" not in shown
