"""What the sinks of brokers have in common, on each of them: no connection and what is said about it,
closing, wrong settings. Proves: S11, S13."""
import collections
import contextlib
import os
import socket
import threading
import time

import pytest

from support.amqpserver import Scripted as Amqp
from support.database import ROOT
from support.names import names
from support.respserver import Resp
from support.sinkdrive import Drive, OpenError, drive, has_kind, preload
from support.under import PATIENCE, UNDER

# option: the setting that says where; tls: the scheme with TLS, None for none; hello: what a server says before TLS
Broker = collections.namedtuple("Broker", "kind option scheme tls hello", defaults=(b"",))
INFO = b'INFO {"server_id":"x","version":"2.9.10","proto":1,"headers":true,"tls_required":true,"max_payload":1000}\r\n'
BROKERS = [Broker("redis", "url", "redis", None), Broker("nats", "servers", "nats", "tls", INFO),
           Broker("amqp", "url", "amqp", "amqps"), Broker("mqtt", "url", "mqtt", "mqtts")]
MESSAGE = {"topic": "orders", "payload": {"n": 1}}


@pytest.fixture(params=BROKERS, ids=lambda broker: broker.kind)
def broker(request):
    if not has_kind(request.param.kind):
        pytest.skip("this build has no sink " + request.param.kind)
    return request.param


def only(which):
    return pytest.mark.parametrize("broker", filter(which, BROKERS), ids=lambda broker: broker.kind, indirect=True)


def one(broker, place, scheme=None, **options):
    places = place if isinstance(place, list) else [place]
    urls = ["%s://%s" % (scheme or broker.scheme, each) for each in places]
    verdict, = drive(broker.kind, {broker.option: urls, **options}, [MESSAGE])
    return verdict


def place_of(listener):
    return "127.0.0.1:%d" % listener.getsockname()[1]


def unreachable(broker, verdict):
    return (verdict["outcome"], verdict["code"], verdict["unreachable"]) == ("retry", broker.kind + "_connect", True)


def test_no_server(broker):
    """S13: and it is said whom we could not reach."""
    with socket.create_server(("127.0.0.1", 0)) as taken:
        place = place_of(taken)
    verdict = one(broker, place)
    assert unreachable(broker, verdict) and place in verdict["text"]
    assert ("refused" in verdict["text"] or broker.kind == "nats") and ".c:" not in verdict["text"]


def test_a_silent_server_is_given_up(broker):
    """S11"""
    with socket.create_server(("127.0.0.1", 0)) as silent:
        verdict = one(broker, place_of(silent), connect_timeout="200ms")
        assert unreachable(broker, verdict)
        assert verdict["text"] == place_of(silent) + " did not answer within 200 ms"
        assert verdict["elapsed_ms"] < 5000 * PATIENCE


def test_an_unknown_name(broker):
    verdict = one(broker, "nowhere.invalid:7")
    assert unreachable(broker, verdict)
    assert "nowhere.invalid:7" in verdict["text"] and "route" not in verdict["text"] and ".c:" not in verdict["text"]


@pytest.mark.parametrize("scheme", ["plain", "tls"])
def test_a_name_that_is_not_answered_is_given_up(broker, tmp_path, scheme):
    """S11, S13: nothing was sent, so it is no unknown; and closing waits for nobody."""
    if scheme == "tls" and not broker.tls:
        pytest.skip("not applicable: it has no TLS")
    url = "%s://broker.hangs.test:7" % (broker.tls if scheme == "tls" else broker.scheme)
    with Drive(broker.kind, {broker.option: url, "connect_timeout": "200ms"}, env=names(tmp_path)) as sink:
        sink.send(MESSAGE)
        verdict = sink.verdict()
        assert unreachable(broker, verdict) and "broker.hangs.test:7" in verdict["text"]
        assert verdict["elapsed_ms"] < 10000 * PATIENCE
        began = time.monotonic()
        sink.finish()
        assert time.monotonic() - began < 10 * PATIENCE


def test_kafka_by_a_name_that_is_not_answered(tmp_path):
    """S11, S13: the same; its library joins the threads that look names up."""
    if not has_kind("kafka"):
        pytest.skip("this build has no sink kafka")
    options = {"brokers": "broker.hangs.test:9092", "delivery_timeout": "2s"}
    with Drive("kafka", options, deadline=20, env=names(tmp_path)) as sink:
        sink.send(MESSAGE)
        verdict = sink.verdict()
        assert (verdict["outcome"], verdict["unreachable"]) == ("retry", True)
        began = time.monotonic()
        sink.finish()
        assert time.monotonic() - began < 10 * PATIENCE


@pytest.mark.skipif(bool(UNDER), reason="a watched program has its own memory")
def test_kafka_makes_no_room_for_any_length():
    """S10: a broker that announces 90 MB and sends them."""
    if not has_kind("kafka"):
        pytest.skip("this build has no sink kafka")

    def serve(listener):
        while True:
            try:
                conn, _ = listener.accept()
            except OSError:
                return
            with conn, contextlib.suppress(OSError):
                conn.recv(65536)
                conn.sendall((90000000).to_bytes(4, "big"))
                while True:
                    conn.sendall(bytes(65536))
    with socket.create_server(("127.0.0.1", 0)) as listener:
        thread = threading.Thread(target=serve, args=(listener,), daemon=True)
        thread.start()
        with Drive("kafka", {"brokers": place_of(listener), "delivery_timeout": "2s"}, deadline=20) as sink:
            sink.send(MESSAGE)
            assert sink.verdict()["outcome"] == "retry"
            with open("/proc/%d/status" % sink.process.pid) as file:
                peak = next(int(line.split()[1]) for line in file if line.startswith("VmHWM"))
        listener.shutdown(socket.SHUT_RDWR)
        thread.join(5)
    assert peak < 64 * 1024 or "asan" in os.environ.get("OUTBOX_BUILD", "")


class Slow(Amqp):
    def answer(self, method):
        time.sleep(0.6)
        super().answer(method)


def slowly(words):
    time.sleep(0.6)


@contextlib.contextmanager
def slow_place(broker):
    """A server each of whose steps is in time, but not all together; for NATS two that say nothing."""
    with contextlib.ExitStack() as stack:
        if broker.kind == "redis":
            yield place_of(stack.enter_context(Resp(slowly)).server.socket)
        elif broker.kind == "amqp":
            yield "127.0.0.1:%d" % stack.enter_context(Slow()).port
        else:
            yield [place_of(stack.enter_context(socket.create_server(("127.0.0.1", 0)))) for _ in range(3)]


@only(lambda broker: broker.kind != "mqtt")  # which has a single step that waits
def test_the_time_to_connect_is_one_for_all_steps(broker):
    """S11"""
    more = {"password": "p", "db": 1} if broker.kind == "redis" else {}
    with slow_place(broker) as place:
        verdict = one(broker, place, connect_timeout="1s", **more)
    assert unreachable(broker, verdict) and "did not answer within 1 s" in verdict["text"]
    assert verdict["elapsed_ms"] < 2900 * PATIENCE


@only(lambda broker: broker.tls)
@pytest.mark.parametrize("cut", ["closed", "nonsense"])
def test_a_handshake_that_fails_is_tried_again(broker, cut):
    """S13: only a certificate that is rejected is a matter of the set-up."""

    def serve(listener):
        with contextlib.suppress(OSError):
            while True:
                conn, _ = listener.accept()
                with conn:
                    conn.sendall(broker.hello)
                    conn.recv(65536)
                    if cut == "nonsense":
                        conn.sendall(b"nonsense, and more of it than a record's head\r\n")
    with socket.create_server(("127.0.0.1", 0)) as listener:
        thread = threading.Thread(target=serve, args=(listener,), daemon=True)
        thread.start()
        verdict = one(broker, place_of(listener), broker.tls)
        listener.shutdown(socket.SHUT_RDWR)
        thread.join(5)
    assert (verdict["outcome"], verdict["code"], verdict["unreachable"]) == ("retry", broker.kind + "_tls", True)
    assert "127.0.0.1:" in verdict["text"] and "null" not in verdict["text"]


def test_closing_does_not_wait_for_a_silent_server(broker):
    """S11"""
    with socket.create_server(("127.0.0.1", 0)) as silent:
        url = "%s://%s" % (broker.scheme, place_of(silent))
        with Drive(broker.kind, {broker.option: url, "connect_timeout": "60s"}) as sink:
            sink.send(MESSAGE, {"close": True})
            began = time.monotonic()
            status, _ = sink.finish()
            assert status in (0, 3) and time.monotonic() - began < 10 * PATIENCE


@pytest.mark.parametrize("url, words", [("http://h", "must begin with"), ("%s://u:p@h", "username"), ("%s://h:x", "port"),
                                        ("%s://h:0", "port"), ("%s://", "host"), ("%s://h?a=b", "parameters")])
def test_bad_urls_are_refused(broker, url, words):
    with pytest.raises(OpenError, match=words):
        Drive(broker.kind, {broker.option: url.replace("%s", broker.scheme)})


@pytest.mark.parametrize("kind, url, words", [("redis", "rediss://h", "TLS"), ("redis", "redis://h/x", "database"),
                                              ("amqp", "amqp://h/%zz", "path"), ("mqtt", "mqtt://h/orders", "topic")])
def test_urls_that_are_bad_for_one(kind, url, words):
    if not has_kind(kind):
        pytest.skip("this build has no sink " + kind)
    with pytest.raises(OpenError, match=words):
        Drive(kind, {"url": url})


NO_PARCEL = """
#include "sink/broker/broker.h"
void *__libc_malloc(size_t);
static atomic_int calls;
void *malloc(size_t size)
{
    return size == sizeof(struct ob_broker_job) && calls++ == 0 ? NULL : __libc_malloc(size);
}
"""


def test_no_memory_for_a_message_spends_nothing(broker, tmp_path, monkeypatch):
    """S13: nothing was tried, and it is not tried again at once."""
    if UNDER:
        pytest.skip("the watcher has a malloc of its own")
    monkeypatch.setenv("CPATH", ":".join(os.path.join(ROOT, folder) for folder in ("src", "include")))
    with socket.create_server(("127.0.0.1", 0)) as silent:
        url = "%s://%s" % (broker.scheme, place_of(silent))
        verdict, = drive(broker.kind, {broker.option: url}, [MESSAGE], env=preload(tmp_path, "memory", NO_PARCEL))
    assert (verdict["outcome"], verdict["code"]) == ("not_sent", "out_of_memory")
    assert verdict["not_before_ms"] > 0


TLS = [("http", {"url": "https://localhost:1"}), ("smtp", {"url": "smtp://localhost:1", "from": "a@b.example"}),
       ("slack", {"token": "t", "channel": "c"}), ("telegram", {"token": "1:t", "chat": "1"}),
       ("whatsapp", {"token": "t", "phone_number_id": "1"}),
       ("mqtt", {"url": "mqtts://localhost:1"}), ("amqp", {"url": "amqps://localhost:1"}),
       ("nats", {"servers": "tls://localhost:1"})]


@pytest.mark.parametrize("kind, options", TLS, ids=[kind for kind, _ in TLS])
def test_a_tls_file_that_cannot_be_read_is_refused(kind, options):
    """V11: all sinks with TLS read its files alike: a mistake is found when the sink is opened, not at the first message."""
    if not has_kind(kind):
        pytest.skip("not built")
    with pytest.raises(OpenError, match="tls.ca: the file /nowhere/ca.pem cannot be read"):
        Drive(kind, {**options, "tls.ca": "/nowhere/ca.pem"})
