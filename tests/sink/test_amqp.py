"""The RabbitMQ sink on a real broker. Proves: N3, N8, S13, S11, M19. One broker serves all tests: it takes long to start."""
import json
import socket
import subprocess
import threading
import time

import pytest

from support.broker import voyage
from support.nginx import free_port
from support.rabbitserver import PROGRAM, Rabbit
from support.sinkdrive import Drive, drive, needs_kind

pytestmark = [needs_kind("amqp"), pytest.mark.skipif(not PROGRAM, reason="there is no rabbitmq-server")]

MESSAGE = {"topic": "q", "payload": {"n": 1}}


@pytest.fixture(scope="module")
def server(tmp_path_factory):
    folder = tmp_path_factory.mktemp("rabbit")
    key, cert, port = str(folder / "key"), str(folder / "cert"), free_port()
    subprocess.run(["openssl", "req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1", "-nodes",
                    "-keyout", key, "-out", cert, "-days", "2", "-subj", "/CN=localhost", "-addext",
                    "subjectAltName=DNS:localhost"], check=True, stderr=subprocess.DEVNULL)
    config = "\n".join(["max_message_size = 1000000", "listeners.ssl.default = 127.0.0.1:%d" % port,
                        "ssl_options.cacertfile = " + cert, "ssl_options.certfile = " + cert,
                        "ssl_options.keyfile = " + key, "ssl_options.verify = verify_none",
                        "ssl_options.fail_if_no_peer_cert = false"])
    with Rabbit(folder, config) as server:
        server.cert, server.tls_port = cert, port
        yield server


@pytest.fixture(autouse=True)
def queues(request):
    if "server" not in request.fixturenames:
        return
    server = request.getfixturevalue("server")
    server.delete("q")
    server.queue("q")


def one(url, message=MESSAGE, **options):
    verdict, = drive("amqp", {"url": url, **options}, [message])
    return verdict


def by_handle(verdicts):
    return {v["handle"]: v["outcome"] for v in verdicts}


# ---- what arrives

def test_a_message_has_it_all(server):
    """M19, N3"""
    trace = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"
    message = {"topic": "q", "payload": {"n": 1}, "key": "k é", "seq": 7, "dedupe_key": "d", "tenant": "t",
               "subject": "s", "correlation_id": "c", "attempt": 3, "id": "018bcfe5-6800-7abc-8def-000000000001",
               "created_at_us": 1700000000123456, "headers": {"team": "röd", "traceparent": trace, "outbox-id": "forged"}}
    assert one(server.url(), message)["outcome"] == "accepted"
    (method, props, body), = server.messages("q")
    assert json.loads(body) == {"n": 1}
    assert (props.message_id, props.correlation_id, props.delivery_mode, props.content_type, props.timestamp,
            props.app_id) == (message["id"], "c", 2, "application/json", 1700000000, "outbox")
    assert props.headers == {"outbox-id": message["id"], "outbox-topic": "q", "outbox-namespace": "default",
                             "outbox-key": "k é", "outbox-seq": "7", "outbox-dedupe-key": "d", "outbox-tenant": "t",
                             "outbox-subject": "s", "outbox-correlation-id": "c", "outbox-attempt": "3",
                             "team": "röd", "traceparent": trace}


def test_exchanges_and_routing_keys(server):
    server.queue("routed", "shop", "eu.*")
    assert one(server.url(), {"topic": "t", "payload": {"at": "eu"}, "key": "k"}, exchange="shop",
               routing_key="{{at}}.{{@key}}")["outcome"] == "accepted"
    assert server.messages("routed")[0][0].routing_key == "eu.k"
    verdict = one(server.url(), {"topic": "t" * 256, "payload": {}})
    assert (verdict["outcome"], verdict["code"]) == ("terminal", "amqp_address")


def test_cloudevents(server):
    """N8"""
    one(server.url(), format="binary")
    one(server.url(), format="structured", source="/shop")
    (_, binary, body), (_, structured, event) = server.messages("q")
    assert (binary.headers["cloudEvents_type"], binary.headers["cloudEvents_source"]) == ("q", "outbox/default")
    assert (binary.content_type, body) == ("application/json", b'{"n":1}')
    assert structured.content_type.startswith("application/cloudevents+json")
    assert (json.loads(event)["source"], json.loads(event)["data"]) == ("/shop", {"n": 1})


def test_bytes_and_a_large_body(server):
    drive("amqp", {"url": server.url()},
          [{"topic": "q", "payload_hex": "00ff0a", "content_type": "application/octet-stream"},
           {"topic": "q", "payload_text": "", "content_type": "text/plain"}, {"topic": "q", "payload": "x" * 900_000}])
    bodies = sorted((body for _, _, body in server.messages("q")), key=len)
    assert bodies[:2] == [b"", b"\x00\xff\n"] and len(bodies[2]) == 900_002


def test_tls(server):
    url = "amqps://localhost:%d" % server.tls_port
    assert one(url, **{"tls.ca": server.cert})["outcome"] == "accepted"
    verdict = one(url)
    assert (verdict["outcome"], verdict["code"]) == ("blocked", "amqp_tls")
    verdict, = drive("amqp", {"url": url}, [MESSAGE], env={"SSL_CERT_FILE": server.cert})
    assert verdict["outcome"] == "accepted"
    assert one("amqps://127.0.0.1:%d" % server.tls_port, **{"tls.ca": server.cert})["code"] == "amqp_tls"


# ---- what goes wrong

def test_unroutable(server):
    """S13: it is acknowledged too, but comes back before."""
    message = {"topic": "nowhere", "payload": "x" * 300_000}
    verdict = one(server.url(), message)
    assert (verdict["outcome"], verdict["code"], verdict["scope"]) == ("blocked", "amqp_312", "message")
    assert one(server.url(), message, routing_key="nowhere")["scope"] == "sink"
    assert one(server.url(), message, unroutable="terminal")["outcome"] == "terminal"
    assert one(server.url(), message, mandatory=False)["outcome"] == "accepted"


def test_a_return_belongs_to_its_message(server):
    batch = [{"topic": "q" if n % 3 else "nowhere", "payload": {"n": n}} for n in range(30)]
    verdicts = drive("amqp", {"url": server.url()}, [{"batch": batch}])
    assert by_handle(verdicts) == {n + 1: "accepted" if n % 3 else "blocked" for n in range(30)}
    assert len(server.messages("q")) == 20


def test_a_queue_that_is_full_refuses(server):
    server.delete("full")
    server.queue("full", x_max_length=1, x_overflow="reject-publish")
    assert one(server.url(), {"topic": "full", "payload": {}})["outcome"] == "accepted"
    verdict = one(server.url(), {"topic": "full", "payload": {}})
    assert (verdict["outcome"], verdict["code"]) == ("retry", "amqp_nack")


def test_no_exchange(server):
    verdict = one(server.url(), exchange="none")
    assert (verdict["outcome"], verdict["code"], verdict["scope"]) == ("blocked", "amqp_404", "sink")
    conn = server.connection()
    conn.channel().exchange_declare("passing", "topic")
    with Drive("amqp", {"url": server.url(), "exchange": "passing", "mandatory": False}) as sink:
        sink.send(MESSAGE)
        assert sink.verdict()["outcome"] == "accepted"
        conn.channel().exchange_delete("passing")
        sink.send(MESSAGE)
        verdict = sink.verdict()
        assert (verdict["outcome"], verdict["code"]) == ("blocked", "amqp_404")
    conn.close()


def test_no_right(server):
    conn = server.connection()
    conn.channel().exchange_declare("inner", "topic", internal=True)
    conn.close()
    verdict = one(server.url(), exchange="inner")
    assert (verdict["outcome"], verdict["code"], verdict["scope"]) == ("blocked", "amqp_403", "sink")
    verdict = one(server.url(), password="wrong-one")
    assert (verdict["outcome"], verdict["code"]) == ("blocked", "amqp_403") and "wrong-one" not in verdict["text"]
    verdict = one(server.url("none"))
    assert (verdict["outcome"], verdict["code"]) == ("blocked", "amqp_530")


def test_too_large_for_the_broker(server):
    """It closes the channel and does not say which message it was: with several out it is found out one by one."""
    large, small = {"topic": "q", "payload": "x" * 1_200_000}, {"topic": "q", "payload": {"n": 1}}
    verdict = one(server.url(), large)
    assert (verdict["outcome"], verdict["code"]) == ("terminal", "amqp_406")
    with Drive("amqp", {"url": server.url()}) as sink:
        waiting = {1: large, **{n: small for n in range(2, 12)}}
        ended, rounds = {}, 0
        while waiting and rounds < 6:
            rounds += 1
            sink.send({"batch": list(waiting.values())})
            first = min(verdicts := sink.verdicts(len(waiting)))
            after = {old: verdicts[first + i] for i, old in enumerate(waiting)}
            ended.update({n: v["outcome"] for n, v in after.items() if v["outcome"] in ("accepted", "terminal")})
            waiting = {n: m for n, m in waiting.items() if n not in ended}
        assert ended == {1: "terminal", **{n: "accepted" for n in range(2, 12)}}
        assert rounds >= 2


def test_headers_too_large(server):
    headers = {"h%d" % n: "x" * 1000 for n in range(130)}
    verdict = one(server.url(), {**MESSAGE, "headers": headers})
    assert (verdict["outcome"], verdict["code"]) == ("terminal", "amqp_headers_too_large")
    assert one(server.url(), {**MESSAGE, "headers": dict(list(headers.items())[:100])})["outcome"] == "accepted"


def test_an_alarm_pauses_and_costs_nothing(server):
    with Drive("amqp", {"url": server.url(), "ack_timeout": "60s"}, deadline=60) as sink:
        sink.send(MESSAGE)
        assert sink.verdict()["outcome"] == "accepted"
        server.control("set_vm_memory_high_watermark", "0")
        try:
            found = []
            for _ in range(200):  # the first is what lets the broker notice us
                sink.send(MESSAGE, {"sleep_ms": 20})
            found = [sink.verdict() for _ in range(190)]
            limited = [v for v in found if v["outcome"] == "limited"]
            assert limited and {v["outcome"] for v in found} <= {"limited", "accepted"}
            assert (limited[0]["code"], limited[0]["scope"]) == ("amqp_alarm", "sink")
        finally:
            server.control("set_vm_memory_high_watermark", "0.4")
        found = [sink.verdict() for _ in range(10)]
        assert {v["outcome"] for v in found} <= {"limited", "accepted"}
        sink.send({"sleep_ms": 500}, MESSAGE)
        assert sink.verdict()["outcome"] == "accepted"


def test_no_answer_in_time_is_unknown(server):
    """S11"""
    with Drive("amqp", {"url": server.url(), "ack_timeout": "300ms"}) as sink:
        sink.send(MESSAGE)
        assert sink.verdict()["outcome"] == "accepted"
        server.freeze()
        try:
            sink.send(MESSAGE, MESSAGE)
            for verdict in sink.verdicts(2).values():
                assert (verdict["outcome"], verdict["code"], verdict["unreachable"]) == ("unknown", "amqp_timeout", True)
        finally:
            server.thaw()
        sink.send(MESSAGE)
        assert sink.verdict()["outcome"] == "accepted"


def test_a_silent_broker_is_noticed_by_heartbeats(server):
    with Drive("amqp", {"url": server.url(), "heartbeat": "1s", "ack_timeout": "60s"}, deadline=30) as sink:
        sink.send(MESSAGE)
        assert sink.verdict()["outcome"] == "accepted"
        server.freeze()
        try:
            sink.send(MESSAGE)
            verdict = sink.verdict()
            assert (verdict["outcome"], verdict["code"], verdict["unreachable"]) == ("unknown", "amqp_heartbeat", True)
        finally:
            server.thaw()


def test_heartbeats_keep_an_idle_connection(server):
    with Drive("amqp", {"url": server.url(), "heartbeat": "1s"}) as sink:
        sink.send(MESSAGE, {"sleep_ms": 4000}, MESSAGE)
        assert [sink.verdict()["reference"] for _ in range(2)] == ["1", "2"]


def test_lost_after_the_write_is_unknown(server):
    """A proxy that takes the message and ends the connection."""
    with socket.create_server(("127.0.0.1", 0)) as listener:
        def pump(source, target, until):
            try:
                while (data := source.recv(65536)):
                    if until and until in data:
                        break
                    target.sendall(data)
            except OSError:
                pass
            for end in (source, target):
                try:
                    end.shutdown(socket.SHUT_RDWR)
                except OSError:
                    pass

        def serve():
            near = listener.accept()[0]
            far = socket.create_connection(("127.0.0.1", server.port))
            back = threading.Thread(target=pump, args=(far, near, None))
            near.settimeout(10)
            back.start()
            pump(near, far, b"the-payload")
            back.join()
            near.close()
            far.close()
        thread = threading.Thread(target=serve)
        thread.start()
        verdict = one("amqp://127.0.0.1:%d" % listener.getsockname()[1], {"topic": "q", "payload": "the-payload"})
        thread.join()
    assert (verdict["outcome"], verdict["code"], verdict["unreachable"]) == ("unknown", "amqp_lost", True)


def test_order_within_a_key(server):
    """What follows a failure is never sent."""
    key = [{"topic": "q", "key": "k", "seq": n, "follows": n > 1} for n in range(1, 5)]
    key[1]["topic"] = "nowhere"
    verdicts = drive("amqp", {"url": server.url()}, [{"batch": key + [{"topic": "q", "key": "l", "seq": 1}]}])
    assert by_handle(verdicts) == {1: "accepted", 2: "blocked", 3: "not_sent", 4: "not_sent", 5: "accepted"}
    assert len(server.messages("q")) == 2


def test_cancel(server):
    """S11"""
    server.freeze()
    try:
        with Drive("amqp", {"url": server.url(), "connect_timeout": "10s"}) as sink:
            sink.send({"batch": [{**MESSAGE, "key": "k"}, {**MESSAGE, "key": "k", "follows": True}]}, {"cancel": 1})
            verdict = sink.verdict()
            assert (verdict["handle"], verdict["outcome"]) == (2, "not_sent")
            server.thaw()
            sink.send(MESSAGE)
            assert sink.verdict()["handle"] == 3
    finally:
        server.thaw()


def test_probe(server):
    assert one(server.url(), {"probe": True})["outcome"] == "accepted"
    assert one(server.url(), {"probe": True}, exchange="none")["code"] == "amqp_404"
    assert server.messages("q") == []


# ---- outages; the last, because they change the broker

def test_nothing_is_lost_when_the_broker_restarts_and_dies(server, tmp_path):
    """N3: through a restart, a kill -9 and a stall; order of each key kept."""
    server.queue("orders")

    def stall():
        server.freeze()
        time.sleep(0.7)
        server.thaw()
    voyage(tmp_path, {"kind": "amqp", "url": server.url(), "ack_timeout": "2s"},
           lambda: [json.loads(body)["n"] for _, _, body in server.messages("orders")],
           [server.restart, server.kill_and_start, stall])
