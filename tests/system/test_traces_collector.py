"""Traces at a real OpenTelemetry Collector, which reads what the relay sends and passes it on as JSON.

Proves: N13 (every span of 10,000 messages arrives, and means what it should).
"""
import collections
import json
import os
import subprocess
import urllib.error
import urllib.request

import pytest

from support.database import ROOT
from support.pgserver import free_port
from support.receiver import Receiver, status
from support.relay import Relay, wait_for

SCRIPT = os.path.join(ROOT, "tools", "collector", "start")
TRACE, PARENT = "4bf92f3577b34da6a3ce929d0e0e4736", "00f067aa0ba902b7"


class RealCollector:
    """The collector, and what stands behind it."""

    def __init__(self):
        self.port = free_port()
        self.behind = Receiver(status(200, {"Content-Type": "application/json"}, b"{}"))
        self.process = subprocess.Popen([SCRIPT, str(self.port), str(self.behind.port)], stdout=subprocess.DEVNULL,
                                        stderr=subprocess.DEVNULL)
        self.endpoint = "http://127.0.0.1:%d" % self.port
        wait_for(self.answers, 60, "the collector")

    def answers(self):
        assert self.process.poll() is None
        try:
            request = urllib.request.Request(self.endpoint + "/v1/traces", b"", {"Content-Type": "application/x-protobuf"})
            return urllib.request.urlopen(request, timeout=5).status == 200
        except (urllib.error.URLError, ConnectionError):
            return False

    def spans(self):
        return [span for request in list(self.behind.requests) for resource in json.loads(request.body)["resourceSpans"]
                for scope in resource["scopeSpans"] for span in scope["spans"]]

    def close(self):
        self.process.kill()
        self.process.wait()
        self.behind.__exit__(None, None, None)


@pytest.fixture
def collector():
    done = subprocess.run([SCRIPT, "--fetch"], stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True)
    if done.returncode == 77:
        pytest.skip(done.stderr.strip().splitlines()[-1])
    assert done.returncode == 0, done.stderr
    it = RealCollector()
    yield it
    it.close()


def attributes(of):
    return {pair["key"]: next(iter(pair["value"].values())) for pair in of.get("attributes", [])}


def enqueue(shop, count):
    """Every other one has the trace of its producer."""
    header = json.dumps({"traceparent": "00-%s-%s-01" % (TRACE, PARENT)})
    if shop.kind == "postgresql":
        shop.sql("SELECT count(outbox.enqueue(topic => 'orders', payload => '{}',"
                 " headers => CASE WHEN n %% 2 = 0 THEN %s::jsonb END)) FROM generate_series(1, %s) n", header, count)
    else:
        conn = shop.connect()
        conn.execute("INSERT INTO outbox (topic, payload, headers) WITH RECURSIVE n(n) AS (SELECT 1 UNION ALL SELECT n + 1"
                     " FROM n WHERE n < ?) SELECT 'orders', '{}', CASE WHEN n %% 2 = 0 THEN ? END FROM n".replace("%%", "%"),
                     (count, header))
        shop.commit(conn)
        conn.close()


def test_ten_thousand_messages_arrive(shop, tmp_path, collector):
    """N13: two spans each, none dropped, none twice; half of them in the producer's trace, half in one of their own."""
    count = 10000
    enqueue(shop, count)
    relay = Relay(tmp_path, shop.url, {"out": {"kind": "null"}}, [{"sink": "out"}], log={"level": "info"},
                  traces={"endpoint": collector.endpoint})
    relay.until_empty(timeout=120)
    wait_for(lambda: len(collector.spans()) >= 2 * count, 60, lambda: "all spans (there are %d)" % len(collector.spans()))
    spans = collector.spans()
    assert len(spans) == len({span["spanId"] for span in spans}) == 2 * count
    names = collections.Counter(span["name"] for span in spans)
    assert names == {"outbox orders": count, "deliver out": count}
    outbox = {span["spanId"]: span for span in spans if span["name"] == "outbox orders"}
    traces = collections.Counter(span["traceId"] for span in outbox.values())
    assert traces[TRACE] == count // 2 and len(traces) == count // 2 + 1
    for span in spans:
        if span["name"] == "deliver out":
            assert outbox[span["parentSpanId"]]["traceId"] == span["traceId"]
        else:
            assert (span.get("parentSpanId") == PARENT) == (span["traceId"] == TRACE)


def test_a_failure_is_told_whole(shop, tmp_path, collector):
    """N13: kind, status, events, links and times as another program reads them."""
    shop.enqueue(1)
    sink = {"kind": "stub", "script": "retry:busy accept", "retry": {"base": "10ms", "cap": "10ms"}}
    Relay(tmp_path, shop.url, {"out": sink}, [{"sink": "out"}], traces={"endpoint": collector.endpoint}).until_empty()
    wait_for(lambda: len(collector.spans()) == 3)
    failed, delivered, outbox = sorted(collector.spans(), key=lambda span: (span["name"], span["startTimeUnixNano"]))
    assert failed["status"] == {"message": "busy: the script says retry", "code": 2} and failed["kind"] == 1
    assert attributes(failed)["error.type"] == "busy" and attributes(failed)["outbox.attempt"] == "1"
    assert delivered["status"] == {} and attributes(delivered)["outbox.attempt"] == "2"
    assert [link["spanId"] for link in delivered["links"]] == [outbox["spanId"]]
    (event,) = outbox["events"]
    assert event["name"] == "attempt failed" and attributes(event)["error.type"] == "busy"
    assert int(failed["endTimeUnixNano"]) <= int(event["timeUnixNano"]) <= int(outbox["endTimeUnixNano"])
