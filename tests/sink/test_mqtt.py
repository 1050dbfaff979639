"""The MQTT sink on a real broker, and every reason it can be told. Proves: N3, N8, S13, S11, M19."""
import json
import socket
import subprocess
import time

import pytest

from support.broker import voyage
from support.mosquittoserver import PROGRAM, Mosquitto, Scripted, Subscriber
from support.nginx import free_port
from support.relay import wait_for
from support.sinkdrive import Drive, drive, needs_kind

pytestmark = [needs_kind("mqtt"), pytest.mark.skipif(not PROGRAM, reason="there is no mosquitto")]

MESSAGE = {"topic": "orders", "payload": {"n": 1}}


@pytest.fixture(scope="module")
def server(tmp_path_factory):
    with Mosquitto(tmp_path_factory.mktemp("mosquitto")) as server:
        yield server


@pytest.fixture
def seen(server):
    subscriber = Subscriber(server.port)
    yield subscriber.messages
    subscriber.close()


def one(url, message=MESSAGE, **options):
    verdict, = drive("mqtt", {"url": url, **options}, [message])
    return verdict


def arrived(seen, count):
    wait_for(lambda: len(seen) >= count)
    assert len(seen) == count
    return seen


# ---- what arrives

def test_a_message_has_it_all(server, seen):
    """M19, N3"""
    trace = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"
    message = {"topic": "orders", "payload": {"n": 1}, "key": "k é", "seq": 7, "dedupe_key": "d", "tenant": "t",
               "subject": "s", "correlation_id": "c", "attempt": 3, "id": "018bcfe5-6800-7abc-8def-000000000001",
               "headers": {"team": "röd", "traceparent": trace, "outbox-id": "forged"}}
    assert one(server.url(), message)["outcome"] == "accepted"
    got, = arrived(seen, 1)
    assert (got.topic, got.payload, got.qos, got.retain) == ("orders", b'{"n":1}', 1, False)
    assert got.properties.ContentType == "application/json"
    assert dict(got.properties.UserProperty) == {
        "outbox-id": message["id"], "outbox-topic": "orders", "outbox-namespace": "default", "outbox-key": "k é",
        "outbox-seq": "7", "outbox-dedupe-key": "d", "outbox-tenant": "t", "outbox-subject": "s",
        "outbox-correlation-id": "c", "outbox-attempt": "3", "team": "röd", "traceparent": trace}


def test_cloudevents(server, seen):
    """N8"""
    one(server.url(), format="binary")
    one(server.url(), format="structured", source="/shop")
    binary, structured = arrived(seen, 2)
    properties = dict(binary.properties.UserProperty)
    assert (properties["type"], properties["source"], binary.payload) == ("orders", "outbox/default", b'{"n":1}')
    assert binary.properties.ContentType == "application/json"
    assert structured.properties.ContentType.startswith("application/cloudevents+json")
    event = json.loads(structured.payload)
    assert (event["source"], event["data"]) == ("/shop", {"n": 1})


def test_topics_qos_retain_and_bytes(server, seen):
    drive("mqtt", {"url": server.url(), "topic": "shop/{{@key}}/{{@topic}}", "qos": 2, "retain": True},
          [{"topic": "a", "key": "k", "payload_hex": "00ff0a", "content_type": "application/octet-stream"}])
    got, = arrived(seen, 1)
    assert (got.topic, got.payload, got.qos) == ("shop/k/a", b"\x00\xff\n", 2)
    late = Subscriber(server.port)
    wait_for(lambda: late.messages)
    late.close()
    assert late.messages[0].retain
    drive("mqtt", {"url": server.url(), "topic": "shop/{{@key}}/{{@topic}}", "retain": True},
          [{"topic": "a", "key": "k", "payload_text": "", "content_type": "text/plain"}])


@pytest.mark.parametrize("topic", ["a/#", "a/+/b", "$SYS/broker", "a\u0001b", "a\u0085b",
                                   "x" * 65536, ""])
def test_topics_that_are_none(server, topic):
    """S13: and nobody reaches the broker's own topics by what a message says."""
    verdict = one(server.url(), {"topic": "t", "payload": {"to": topic}}, topic="{{to}}")
    assert (verdict["outcome"], verdict["code"]) == ("terminal", "mqtt_address")


def test_more_than_the_broker_lets_out_at_once(server, seen):
    """Its receive maximum is 20."""
    verdicts = drive("mqtt", {"url": server.url()}, [{**MESSAGE, "repeat": 500}])
    assert {v["outcome"] for v in verdicts} == {"accepted"}
    arrived(seen, 500)


def test_nobody_listens(server):
    """0x10 is a success."""
    verdict = one(server.url(), {"topic": "unheard", "payload": {}})
    assert (verdict["outcome"], verdict["text"]) == ("accepted", "nobody subscribes to it")


def test_tls(tmp_path):
    key, cert, port = str(tmp_path / "key"), str(tmp_path / "cert"), free_port()
    subprocess.run(["openssl", "req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1", "-nodes",
                    "-keyout", key, "-out", cert, "-days", "2", "-subj", "/CN=localhost", "-addext",
                    "subjectAltName=DNS:localhost"], check=True, stderr=subprocess.DEVNULL)
    config = "listener %d 127.0.0.1\ncertfile %s\nkeyfile %s" % (port, cert, key)
    with Mosquitto(tmp_path / "m", config=config):
        assert one("mqtts://localhost:%d" % port, **{"tls.ca": cert})["outcome"] == "accepted"
        for url, more in [("mqtts://localhost:%d" % port, {}), ("mqtts://127.0.0.1:%d" % port, {"tls.ca": cert})]:
            verdict = one(url, **more)
            assert (verdict["outcome"], verdict["code"]) == ("blocked", "mqtt_tls")
        verdict, = drive("mqtt", {"url": "mqtts://localhost:%d" % port}, [MESSAGE], env={"SSL_CERT_FILE": cert})
        assert verdict["outcome"] == "accepted"


# ---- what goes wrong

REASONS = {"accepted": [0x00, 0x10], "blocked": [0x87, 0x90], "terminal": [0x95, 0x99], "limited": [0x97],
           "retry": [0x80, 0x83, 0x91]}


@pytest.mark.parametrize("reason, outcome", [(reason, outcome) for outcome, rs in REASONS.items() for reason in rs])
def test_reasons(reason, outcome):
    """S13"""
    with Scripted(lambda topic: reason) as broker:
        verdict = one(broker.url, topic="s")
        again = one(broker.url)
    assert verdict["outcome"] == outcome
    if outcome != "accepted":
        assert (verdict["code"], verdict["scope"]) == ("mqtt_0x%02x" % reason, "sink")
        assert again["scope"] == ("message" if outcome == "blocked" else "sink")


@pytest.mark.parametrize("reason, outcome", [(0x86, "blocked"), (0x87, "blocked"), (0x85, "blocked"), (0x84, "blocked"),
                                             (0x8a, "blocked"), (0x88, "retry"), (0x89, "retry"), (0x97, "retry"),
                                             (0x9f, "retry"), (0x80, "retry")])
def test_refused_connections(reason, outcome):
    with Scripted(lambda topic: 0, connack=reason) as broker:
        verdict = one(broker.url)
    assert (verdict["outcome"], verdict["code"]) == (outcome, "mqtt_0x%02x" % reason)
    assert verdict["unreachable"] == (outcome == "retry")


def test_users_and_their_rights(tmp_path):
    (tmp_path / "acl").write_text("user few\ntopic write orders\n")
    passwords = tmp_path / "passwords"
    subprocess.run(["mosquitto_passwd", "-b", "-c", str(passwords), "few", "right-one"], check=True,
                   stderr=subprocess.DEVNULL)
    config = "password_file %s\nacl_file %s" % (passwords, tmp_path / "acl")
    with Mosquitto(tmp_path / "m", anonymous="false", config=config) as server:
        few = {"username": "few", "password": "right-one"}
        assert one(server.url(), **few)["outcome"] == "accepted"
        verdict = one(server.url(), {"topic": "other", "payload": {}}, **few)
        assert (verdict["outcome"], verdict["code"], verdict["scope"]) == ("blocked", "mqtt_0x87", "message")
        for more in ({}, {"username": "few", "password": "wrong-one"}):
            verdict = one(server.url(), **more)
            assert (verdict["outcome"], verdict["code"], verdict["scope"]) == ("blocked", "mqtt_0x87", "sink")
            assert "wrong-one" not in verdict["text"]


def test_too_large(tmp_path):
    large = {"topic": "a", "payload": "x" * 3000}
    with Mosquitto(tmp_path / "a", config="max_packet_size 2000") as server:
        verdict = one(server.url(), large)
        assert (verdict["outcome"], verdict["code"]) == ("terminal", "mqtt_too_large")
    with Mosquitto(tmp_path / "b", config="message_size_limit 2000") as server:
        verdict = one(server.url(), large)
        assert (verdict["outcome"], verdict["code"]) == ("terminal", "mqtt_0x95")
        assert one(server.url())["outcome"] == "accepted"


@pytest.mark.parametrize("value", ["x" * 70000, "a\u0085b"])
def test_a_header_that_mqtt_cannot_carry(server, value):
    """Its length has two bytes; and a broker ends the connection for all over a control character."""
    verdict = one(server.url(), {**MESSAGE, "headers": {"h": value}})
    assert (verdict["outcome"], verdict["code"]) == ("terminal", "mqtt_header")


def test_two_with_one_name(server):
    """The broker ends the older connection; its next message makes a new one."""
    with Drive("mqtt", {"url": server.url(), "client_id": "same"}) as first, \
            Drive("mqtt", {"url": server.url(), "client_id": "same"}) as second:
        for sink in (first, second, first):
            sink.send(MESSAGE)
            assert sink.verdict()["outcome"] == "accepted"


def test_lost_after_the_write_is_unknown_and_not_sent_again():
    with Scripted(lambda topic: "close" if topic == "bad" else 0) as broker:
        with Drive("mqtt", {"url": broker.url}) as sink:
            sink.send({"topic": "bad", "payload": {}})
            verdict = sink.verdict()
            assert (verdict["outcome"], verdict["code"], verdict["unreachable"]) == ("unknown", "mqtt_lost", True)
            sink.send({"sleep_ms": 300}, {"topic": "good", "payload": {}})
            assert sink.verdict()["outcome"] == "accepted"
        assert broker.topics == ["bad", "good"]


def test_no_answer_in_time_is_unknown(server):
    """S11"""
    with Drive("mqtt", {"url": server.url(), "ack_timeout": "300ms"}) as sink:
        sink.send(MESSAGE)
        assert sink.verdict()["outcome"] == "accepted"
        server.freeze()
        try:
            sink.send(MESSAGE, MESSAGE)
            for verdict in sink.verdicts(2).values():
                assert (verdict["outcome"], verdict["code"], verdict["unreachable"]) == ("unknown", "mqtt_timeout", True)
        finally:
            server.thaw()
        sink.send(MESSAGE)
        assert sink.verdict()["outcome"] == "accepted"


def test_an_idle_connection_is_kept(server):
    """Keepalive: the broker would end it after one and a half times that long."""
    before = server.log().count("New client connected")
    with Drive("mqtt", {"url": server.url(), "keepalive": "5s"}, deadline=20) as sink:
        sink.send(MESSAGE, {"sleep_ms": 9000}, MESSAGE)
        assert [sink.verdict()["outcome"] for _ in range(2)] == ["accepted"] * 2
    assert server.log().count("New client connected") == before + 1


def test_order_within_a_key():
    """What follows a failure is never sent."""
    key = [{"topic": "t", "key": "k", "seq": n, "follows": n > 1} for n in range(1, 5)]
    key[1]["topic"] = "bad"
    with Scripted(lambda topic: 0x97 if topic == "bad" else 0) as broker:
        verdicts = drive("mqtt", {"url": broker.url}, [{"batch": key + [{"topic": "t", "key": "l", "seq": 1}]}])
        assert {v["handle"]: v["outcome"] for v in verdicts} == {1: "accepted", 2: "limited", 3: "not_sent",
                                                                 4: "not_sent", 5: "accepted"}
        assert len(broker.topics) == 3


def test_cancel(server):
    """S11"""
    server.freeze()
    try:
        with Drive("mqtt", {"url": server.url(), "connect_timeout": "10s"}) as sink:
            sink.send({"batch": [{**MESSAGE, "key": "k"}, {**MESSAGE, "key": "k", "follows": True}]}, {"cancel": 1})
            verdict = sink.verdict()
            assert (verdict["handle"], verdict["outcome"]) == (2, "not_sent")
            server.thaw()
            sink.send(MESSAGE)
            assert sink.verdict()["handle"] == 3
    finally:
        server.thaw()


def test_probe(server):
    before = server.log().count("Received PUBLISH")
    assert one(server.url(), {"probe": True})["outcome"] == "accepted"
    assert server.log().count("Received PUBLISH") == before


BAD_ANSWERS = {  # what comes back for a PUBLISH: nobody may die of it, and nothing is taken for an acceptance
    "an unknown property": lambda id: b"\x40\x06" + id + b"\x00\x02\x7f\x00",
    "half a packet": lambda id: b"\x40\x7f" + id,
    "another message": lambda id: b"\x40\x02\x7f\xff",
    "no message": lambda id: b"\x40\x02\x00\x00",
    "the wrong step": lambda id: b"\x50\x02" + id,
    "a subscription": lambda id: b"\x90\x03" + id + b"\x00",
    "a message for us": lambda id: b"\x30\x05\x00\x01a\x00x",
    "a huge packet": lambda id: b"\x40\xff\xff\xff\x7f",
    "an endless length": lambda id: b"\x40\xff\xff\xff\xff\xff",
    "a sign of life unasked": lambda id: b"\xd0\x00",
    "text": lambda id: b"HTTP/1.1 400 Bad Request\r\n\r\n",
}


@pytest.mark.parametrize("name", BAD_ANSWERS)
def test_what_cannot_be_an_answer_is_none(name):
    """S13: the connection is given up, and what was out is unknown."""
    class Broker(Scripted):
        def speak(self, conn, file):
            self.packet(file)
            conn.sendall(b"\x20\x03\x00\x00\x00")
            while True:
                kind, body = self.packet(file)
                if kind is None:
                    return
                conn.sendall(BAD_ANSWERS[name](body[2 + body[1]:4 + body[1]]))
    with Broker(None) as broker:
        verdict = one(broker.url, ack_timeout="700ms")
    assert (verdict["outcome"], verdict["unreachable"]) == ("unknown", True)
    assert verdict["code"] == ("mqtt_timeout" if name == "half a packet" else "mqtt_protocol")


@pytest.mark.parametrize("properties", [b"\x7f\x00", b"\x26\xff\xff", b"\x21\x00\x00", b"\x1f\x00\x02\xc3"])
def test_a_greeting_that_cannot_be_read(properties):
    """S13: an unknown property, a text without its end, nothing allowed out: no connection, and nobody dies of it."""
    with Scripted(lambda topic: 0, properties=properties) as broker:
        verdict = one(broker.url)
    assert (verdict["outcome"], verdict["code"], verdict["unreachable"]) == ("retry", "mqtt_connect", True)


def test_what_the_broker_does_not_support():
    """S13: a matter of the set-up, told before anything is sent."""
    with Scripted(lambda topic: 0, properties=b"\x24\x01\x25\x00") as broker:
        assert one(broker.url)["outcome"] == "accepted"
        for options in ({"qos": 2}, {"retain": True}):
            verdict = one(broker.url, **options)
            assert (verdict["outcome"], verdict["code"]) == ("blocked", "mqtt_not_supported")


def subscribe(port, acknowledge):
    """A subscriber of MQTT 3.1.1 with a session that lasts: the next message, as (is it marked as a copy, topic)."""
    with socket.create_connection(("127.0.0.1", port), timeout=10) as conn, conn.makefile("rb") as file:
        conn.sendall(b"\x10\x10\x00\x04MQTT\x04\x00\x00\x3c\x00\x04same" + b"\x82\x08\x00\x01\x00\x03a/#\x01")
        seen = []
        while True:
            kind, body = Scripted.packet(file)
            if kind >> 4 == 3:
                size = body[1]
                if acknowledge:
                    conn.sendall(b"\x40\x02" + body[2 + size:4 + size])
                seen.append((bool(kind & 8), body[2:2 + size].decode()))
            if kind >> 4 == 9:
                yield
            while seen and kind >> 4 != 9:
                yield seen.pop(0)


def test_a_copy_that_the_broker_makes(server):
    """N3: a subscriber that does not acknowledge gets the message again, though we sent it once and know that it arrived."""
    first = subscribe(server.port, False)
    next(first)
    verdict = one(server.url(), topic="a/b")
    assert (verdict["outcome"], next(first)) == ("accepted", (False, "a/b"))
    first.close()
    second = subscribe(server.port, True)
    assert (True, "a/b") in (next(second), next(second))  # before or after it is told that it is subscribed
    second.close()
    assert server.received("a/b") == [""]


# ---- outages

def test_nothing_is_lost_when_the_broker_restarts_and_dies(tmp_path):
    """N3: through a restart, a kill -9 and a stall; order of each key kept."""
    with Mosquitto(tmp_path / "mosquitto") as server:
        def stall():
            server.freeze()
            time.sleep(0.7)
            server.thaw()
        voyage(tmp_path, {"kind": "mqtt", "url": server.url(), "topic": "{{@topic}}/{{n}}", "ack_timeout": "400ms"},
               lambda: [int(n) for n in server.received("orders/")], [server.restart, server.kill_and_start, stall])
