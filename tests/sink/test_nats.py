"""The NATS sink on a real server with JetStream. Proves: N3, N8, S13, S11, M19."""
import json
import socket
import subprocess
import threading
import time

import pytest

from support.broker import voyage
from support.natsserver import PROGRAM, Nats
from support.sinkdrive import Drive, OpenError, drive, needs_kind, preload

pytestmark = [needs_kind("nats"), pytest.mark.skipif(not PROGRAM, reason="there is no nats-server")]

MESSAGE = {"topic": "orders.paid", "payload": {"n": 1}}


@pytest.fixture(scope="module")
def server(tmp_path_factory):
    with Nats(tmp_path_factory.mktemp("nats")) as server:
        server.stream("ORDERS", "orders.>")
        yield server


@pytest.fixture(autouse=True)
def empty(request):
    if "server" in request.fixturenames:
        request.getfixturevalue("server").request("$JS.API.STREAM.PURGE.ORDERS")


def one(url, message=MESSAGE, **options):
    verdict, = drive("nats", {"servers": url, **options}, [message])
    return verdict


# ---- what arrives

def test_a_message_has_it_all(server):
    """M19, N3"""
    trace = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"
    message = {"topic": "orders.paid", "payload": {"n": 1}, "key": "k é", "seq": 7, "dedupe_key": "d", "tenant": "t",
               "subject": "s", "correlation_id": "c", "attempt": 3, "id": "018bcfe5-6800-7abc-8def-000000000001",
               "headers": {"team": "red", "traceparent": trace, "outbox-id": "forged", "Nats-Rollup": "all",
                           "nats-msg-id": "forged"}}
    verdict = one(server.url(), message)
    assert verdict["outcome"] == "accepted" and verdict["reference"].startswith("ORDERS/")
    (subject, headers, data), = server.messages("ORDERS")
    assert (subject, json.loads(data)) == ("orders.paid", {"n": 1})
    assert headers == {"Nats-Msg-Id": message["id"], "outbox-id": message["id"], "outbox-topic": "orders.paid",
                       "outbox-namespace": "default", "outbox-key": "k%20%C3%A9", "outbox-seq": "7",
                       "outbox-dedupe-key": "d", "outbox-tenant": "t", "outbox-subject": "s",
                       "outbox-correlation-id": "c", "outbox-attempt": "3", "team": "red", "traceparent": trace,
                       "content-type": "application/json"}


def test_no_message_gives_orders_to_the_server(server):
    """Nats-Rollup would empty the stream."""
    one(server.url())
    one(server.url(), {**MESSAGE, "headers": {"NATS-ROLLUP": "all"}})
    assert len(server.messages("ORDERS")) == 2


def test_cloudevents(server):
    """N8"""
    one(server.url(), format="binary")
    one(server.url(), format="structured", source="/shop")
    (_, binary, body), (_, structured, event) = server.messages("ORDERS")
    assert (binary["ce-type"], binary["ce-source"], body) == ("orders.paid", "outbox/default", b'{"n":1}')
    assert structured["content-type"].startswith("application/cloudevents+json")
    assert (json.loads(event)["source"], json.loads(event)["data"]) == ("/shop", {"n": 1})


def test_subjects_by_template(server):
    one(server.url(), {"topic": "a", "payload": {"who": "x"}, "key": "k"}, subject="orders.{{@key}}.{{who}}")
    assert server.messages("ORDERS")[0][0] == "orders.k.x"


@pytest.mark.parametrize("topic", ["orders.*", "orders.>", "$JS.API.STREAM.PURGE.ORDERS", "orders..x", ".orders", "orders.",
                                   "orders x", "_INBOX.a"])
def test_subjects_that_are_none(server, topic):
    """S13: and nobody reaches the server's own subjects by the name of a topic."""
    one(server.url())
    verdict = one(server.url(), {"topic": topic, "payload": {}})
    assert (verdict["outcome"], verdict["code"]) == ("terminal", "nats_address")
    assert len(server.messages("ORDERS")) == 1


def test_the_stream_drops_the_second_copy(server):
    message = {**MESSAGE, "id": "018bcfe5-6800-7abc-8def-000000000002"}
    first = one(server.url(), message)
    second = one(server.url(), {**message, "attempt": 2})
    assert first["text"] is None and second["text"] == "already in the stream"
    assert (second["outcome"], second["reference"]) == ("accepted", first["reference"])
    assert len(server.messages("ORDERS")) == 1


# ---- what goes wrong

def test_no_stream(server):
    """First it may be on its way; then the set-up is wrong."""
    message = {"topic": "nowhere", "payload": {}}
    verdict = one(server.url(), message, subject="nowhere")
    assert (verdict["outcome"], verdict["code"]) == ("retry", "nats_no_stream")
    verdict = one(server.url(), {**message, "attempt": 2}, subject="nowhere")
    assert (verdict["outcome"], verdict["code"], verdict["scope"]) == ("blocked", "nats_no_stream", "sink")
    assert one(server.url(), {**message, "attempt": 2})["scope"] == "message"


def test_larger_than_the_server_takes(server):
    verdict = one(server.url(), {**MESSAGE, "payload": "x" * 1_100_000})
    assert (verdict["outcome"], verdict["code"]) == ("terminal", "nats_max_payload")


def test_larger_than_the_stream_takes(server):
    server.stream("SMALL", "small", max_msg_size=100)
    verdict = one(server.url(), {"topic": "small", "payload": "x" * 1000})
    assert (verdict["outcome"], verdict["code"]) == ("terminal", "nats_10054")


def test_headers_larger_than_the_stream_takes(server):
    headers = {"h%d" % n: "x" * 1000 for n in range(70)}
    verdict = one(server.url(), {**MESSAGE, "headers": headers})
    assert (verdict["outcome"], verdict["code"]) == ("terminal", "nats_10097")


def test_a_full_stream(server):
    server.stream("FULL", "full", max_msgs=1, discard="new")
    assert one(server.url(), {"topic": "full", "payload": {}})["outcome"] == "accepted"
    verdict = one(server.url(), {"topic": "full", "payload": {}, "id": "018bcfe5-6800-7abc-8def-000000000003"})
    assert (verdict["outcome"], verdict["code"]) == ("retry", "nats_10077")


def test_the_wrong_stream_and_a_sealed_one(server):
    verdict = one(server.url(), subject="orders.x", expect_stream="OTHER")
    assert (verdict["outcome"], verdict["code"], verdict["scope"]) == ("blocked", "nats_10060", "sink")
    server.stream("SEALED", "sealed")
    server.request("$JS.API.STREAM.UPDATE.SEALED", {"name": "SEALED", "subjects": ["sealed"], "storage": "file",
                                                    "num_replicas": 1, "max_msgs": -1, "max_bytes": -1, "sealed": True,
                                                    "duplicate_window": 120000000000})
    verdict = one(server.url(), {"topic": "sealed", "payload": {}})
    assert (verdict["outcome"], verdict["code"]) == ("blocked", "nats_10109")


class Scripted:
    """Answers every publish of one connection with one text."""

    def __init__(self, answer):
        self.answer = answer
        self.server = socket.create_server(("127.0.0.1", 0))
        self.url = "nats://127.0.0.1:%d" % self.server.getsockname()[1]
        self.thread = threading.Thread(target=self.run, daemon=True)

    def run(self):
        conn, _ = self.server.accept()
        file = conn.makefile("rb")
        conn.sendall(b'INFO {"server_id":"x","version":"2.9.10","proto":1,"headers":true,"max_payload":1048576}\r\n')
        sid = b"1"
        while (line := file.readline()):
            words = line.split()
            if words[0] == b"PING":
                conn.sendall(b"PONG\r\n")
            elif words[0] == b"SUB":
                sid = words[-1]
            elif words[0] in (b"PUB", b"HPUB"):
                file.read(int(words[-1]) + 2)
                if self.answer is None:
                    break
                conn.sendall(b"MSG %s %s %d\r\n%s\r\n" % (words[2], sid, len(self.answer), self.answer))
        file.close()
        conn.close()

    def __enter__(self):
        self.thread.start()
        return self

    def __exit__(self, *_):
        self.server.close()
        self.thread.join(5)


CODES = {"terminal": [10054, 10097], "retry": [10077, 10023, 10028, 10047, 10008, 10009, 10118, 10167, 10158, 10099],
         "blocked": [10060, 10039, 10076, 10109]}


@pytest.mark.parametrize("code, outcome", [(code, outcome) for outcome, codes in CODES.items() for code in codes])
def test_codes(code, outcome):
    """S13"""
    answer = json.dumps({"error": {"code": 503, "err_code": code, "description": "10054 10060 whatever"}})
    with Scripted(answer.encode()) as server:
        verdict = one(server.url, subject="s")
    assert (verdict["outcome"], verdict["code"]) == (outcome, "nats_%d" % code)


def test_lost_after_the_write_is_unknown():
    with Scripted(None) as server:
        verdict = one(server.url)
    assert (verdict["outcome"], verdict["code"], verdict["unreachable"]) == ("unknown", "nats_lost", True)


def test_no_acknowledgement_in_time_is_unknown(server):
    """S11"""
    with Drive("nats", {"servers": server.url(), "ack_timeout": "300ms"}) as sink:
        sink.send(MESSAGE)
        assert sink.verdict()["outcome"] == "accepted"
        server.freeze()
        try:
            sink.send(MESSAGE, MESSAGE)
            for verdict in sink.verdicts(2).values():
                assert (verdict["outcome"], verdict["code"], verdict["unreachable"]) == ("unknown", "nats_timeout", True)
        finally:
            server.thaw()
        sink.send(MESSAGE)
        assert sink.verdict()["outcome"] == "accepted"


def test_users_and_their_rights(tmp_path):
    users = """authorization { users: [ {user: all, password: p}, {user: few, password: p,
               permissions: {publish: ["orders.paid", "$JS.API.INFO"], subscribe: "_INBOX.>"}} ] }"""
    with Nats(tmp_path / "n", config=users, login=("all", "p")) as server:
        server.stream("ORDERS", "orders.>")
        few = {"username": "few", "password": "p", "ack_timeout": "20s"}
        verdict = one(server.url(), username="all", password="wrong-one")
        assert (verdict["outcome"], verdict["code"], verdict["scope"]) == ("blocked", "nats_auth", "sink")
        assert "wrong-one" not in verdict["text"]
        assert one(server.url())["code"] == "nats_auth"
        assert one(server.url(), **few)["outcome"] == "accepted"
        for more, scope in [({}, "message"), ({"subject": "orders.other"}, "sink")]:
            verdict = one(server.url(), {"topic": "orders.other", "payload": {}}, **few, **more)
            assert (verdict["outcome"], verdict["code"], verdict["scope"]) == ("blocked", "nats_not_permitted", scope)
            assert verdict["elapsed_ms"] < 15000


def test_token(tmp_path):
    class Tokened(Nats):
        def is_ready(self):
            socket.create_connection(("127.0.0.1", self.port), timeout=1).close()
            return True
    with Tokened(tmp_path / "n", config="authorization { token: s3cret }") as server:
        assert one(server.url(), {"probe": True}, token="s3cret")["outcome"] == "accepted"
        assert one(server.url(), {"probe": True})["code"] == "nats_auth"


def test_tls(tmp_path):
    key, cert = str(tmp_path / "key"), str(tmp_path / "cert")
    subprocess.run(["openssl", "req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1", "-nodes",
                    "-keyout", key, "-out", cert, "-days", "2", "-subj", "/CN=localhost", "-addext",
                    "subjectAltName=DNS:localhost"], check=True, stderr=subprocess.DEVNULL)

    class Secure(Nats):
        def is_ready(self):
            socket.create_connection(("127.0.0.1", self.port), timeout=1).close()
            return True
    with Secure(tmp_path / "n", config='tls { cert_file: "%s", key_file: "%s" }' % (cert, key)) as server:
        url = "tls://localhost:%d" % server.port
        assert one(url, {"probe": True}, **{"tls.ca": cert})["outcome"] == "accepted"
        other = "tls://127.0.0.1:%d" % server.port
        verdict = one(url, {"probe": True})
        assert (verdict["outcome"], verdict["code"]) == ("blocked", "nats_tls")
        verdict, = drive("nats", {"servers": url}, [{"probe": True}], env={"SSL_CERT_FILE": cert})
        assert verdict["outcome"] == "accepted"
        assert one(other, {"probe": True}, **{"tls.ca": cert})["outcome"] == "blocked"
        assert one(other, {"probe": True}, **{"tls.ca": cert, "tls.hostname": "localhost"})["outcome"] == "accepted"
    with pytest.raises(OpenError, match="tls.hostname"):
        Drive("nats", {"servers": ["tls://a", "tls://b"]})


def test_order_within_a_key(server):
    """What follows a failure is never sent."""
    key = [{"topic": "orders.a", "key": "k", "seq": n, "follows": n > 1} for n in range(1, 5)]
    key[1]["topic"] = "nowhere"
    verdicts = drive("nats", {"servers": server.url()}, [{"batch": key + [{"topic": "orders.b", "key": "l", "seq": 1}]}])
    assert {v["handle"]: v["outcome"] for v in verdicts} == {1: "accepted", 2: "retry", 3: "not_sent", 4: "not_sent",
                                                             5: "accepted"}
    assert len(server.messages("ORDERS")) == 2


def test_cancel(server):
    """S11"""
    server.freeze()
    try:
        with Drive("nats", {"servers": server.url(), "connect_timeout": "10s"}) as sink:
            sink.send({"batch": [{**MESSAGE, "key": "k"}, {**MESSAGE, "key": "k", "follows": True}]}, {"cancel": 1})
            verdict = sink.verdict()
            assert (verdict["handle"], verdict["outcome"]) == (2, "not_sent")
            server.thaw()
            sink.send(MESSAGE)
            assert sink.verdict()["handle"] == 3
    finally:
        server.thaw()


def test_probe(server, tmp_path):
    assert one(server.url(), {"probe": True})["outcome"] == "accepted"
    assert one(server.url(), {"probe": True}, expect_stream="ORDERS")["outcome"] == "accepted"
    verdict = one(server.url(), {"probe": True}, expect_stream="NONE")
    assert (verdict["outcome"], verdict["code"]) == ("blocked", "nats_no_stream")
    assert server.messages("ORDERS") == []


# ---- outages

def test_nothing_is_lost_when_the_server_restarts_and_dies(tmp_path):
    """N3: through a restart, a kill -9 and a stall; order of each key kept, and no copy in the stream."""
    with Nats(tmp_path / "nats") as server:
        server.stream("ORDERS", "orders")

        def stall():
            server.freeze()
            time.sleep(0.7)
            server.thaw()
        twice = voyage(tmp_path, {"kind": "nats", "servers": [server.url()], "ack_timeout": "400ms"},
                       lambda: [json.loads(data)["n"] for _, _, data in server.messages("ORDERS")],
                       [server.restart, server.kill_and_start, stall])
        assert twice == 0


LATE = """
#include <dlfcn.h>
#include <nats/nats.h>
static natsConnectionHandler handler;
static void *where;
static int calls;
natsStatus natsOptions_SetClosedCB(natsOptions *options, natsConnectionHandler on_closed, void *closure)
{
    natsStatus (*set)(natsOptions *, natsConnectionHandler, void *) = dlsym(RTLD_NEXT, "natsOptions_SetClosedCB");
    if (!handler) {
        handler = on_closed;
        where = closure;
    }
    return set(options, on_closed, closure);
}
natsStatus js_PublishMsgAsync(jsCtx *js, natsMsg **msg, jsPubOptions *options)
{
    natsStatus (*publish)(jsCtx *, natsMsg **, jsPubOptions *) = dlsym(RTLD_NEXT, "js_PublishMsgAsync");
    if (++calls == 2)
        handler(NULL, where);
    return publish(js, msg, options);
}
"""


def test_the_end_of_an_old_connection_is_not_that_of_the_new(tmp_path):
    """S13: the library may say late that a connection is closed; the next one is in use by then."""
    with Nats(tmp_path / "nats") as server:
        server.stream("ORDERS", "orders.>")
        with Drive("nats", {"servers": server.url()}, env=preload(tmp_path, "late", LATE), deadline=20) as sink:
            sink.send(MESSAGE)
            assert sink.verdict()["outcome"] == "accepted"
            server.restart()
            sink.send({"sleep_ms": 300}, MESSAGE)
            assert sink.verdict()["outcome"] == "accepted"


# ---- our own lack of memory

NO_MEMORY = """
#include <dlfcn.h>
#include <nats/nats.h>
static int calls;
natsStatus natsMsg_Create(natsMsg **msg, const char *subject, const char *reply, const char *data, int len)
{
    natsStatus (*make)(natsMsg **, const char *, const char *, const char *, int) = dlsym(RTLD_NEXT, "natsMsg_Create");
    return ++calls == 1 ? NATS_NO_MEMORY : make(msg, subject, reply, data, len);
}
natsStatus js_PublishMsgAsync(jsCtx *js, natsMsg **msg, jsPubOptions *options)
{
    natsStatus (*publish)(jsCtx *, natsMsg **, jsPubOptions *) = dlsym(RTLD_NEXT, "js_PublishMsgAsync");
    return calls == 2 ? NATS_NO_MEMORY : publish(js, msg, options);
}
"""


def test_out_of_memory_spends_nothing(server, tmp_path):
    """S13: whether the message cannot be made or not be published, nothing was tried; the next one goes out."""
    with Drive("nats", {"servers": server.url()}, env=preload(tmp_path, "memory", NO_MEMORY)) as sink:
        for _ in range(2):
            sink.send(MESSAGE)
            verdict = sink.verdict()
            assert (verdict["outcome"], verdict["code"]) == ("not_sent", "out_of_memory")
            assert verdict["not_before_ms"] > 0
        sink.send(MESSAGE)
        assert sink.verdict()["outcome"] == "accepted"
    assert len(server.messages("ORDERS")) == 1
