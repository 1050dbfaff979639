"""The Redis sink on a real server, and every error it can be told. Proves: N3, N8, S13, S11, M19."""
import time

import pytest

from support.broker import voyage
from support.nginx import free_port
from support.redisserver import PROGRAM, Redis
from support.relay import wait_for
from support.respserver import Resp
from support.sinkdrive import Drive, OpenError, drive, needs_kind

pytestmark = [needs_kind("redis"), pytest.mark.skipif(not PROGRAM, reason="there is no redis-server")]

MESSAGE = {"topic": "orders", "payload": {"n": 1}}


@pytest.fixture(scope="module")
def server(tmp_path_factory):
    with Redis(tmp_path_factory.mktemp("redis")) as server:
        yield server


@pytest.fixture(autouse=True)
def empty(request):
    if "server" in request.fixturenames:
        request.getfixturevalue("server").client().flushall()


def one(url, message=MESSAGE, **options):
    verdict, = drive("redis", {"url": url, **options}, [message])
    return verdict


# ---- what arrives

def test_an_entry_has_it_all(server):
    """M19, N3"""
    trace = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"
    message = {"topic": "orders", "payload": {"n": 1}, "key": "k", "seq": 7, "dedupe_key": "d", "tenant": "t",
               "subject": "s", "correlation_id": "c", "attempt": 3, "id": "018bcfe5-6800-7abc-8def-000000000001",
               "headers": {"team": "röd", "traceparent": trace, "data": "not the payload", "outbox-id": "forged"}}
    verdict = one(server.url(), message)
    assert verdict["outcome"] == "accepted"
    (entry, fields), = server.client().xrange("orders")
    assert verdict["reference"] == entry
    assert fields == {"outbox-id": message["id"], "outbox-topic": "orders", "outbox-namespace": "default",
                      "outbox-key": "k", "outbox-seq": "7", "outbox-dedupe-key": "d", "outbox-tenant": "t",
                      "outbox-subject": "s", "outbox-correlation-id": "c", "outbox-attempt": "3", "team": "röd",
                      "traceparent": trace, "content-type": "application/json", "data": '{"n":1}'}


def test_streams_by_template_and_databases(server):
    one(server.url(3), {"topic": "a", "payload": {"who": "x"}, "key": "k"}, stream="in:{{@topic}}:{{@key}}:{{who}}")
    assert server.entries("in:a:k:x", db=3)[0]["data"] == '{"who":"x"}'
    verdict = one(server.url(), {"topic": "a", "payload": {}}, stream="in:{{who}}")
    assert (verdict["outcome"], verdict["code"]) == ("terminal", "redis_address")


def test_cloudevents(server):
    """N8"""
    one(server.url(), {"topic": "a", "payload": {"n": 1}, "content_type": "application/json"}, format="binary")
    fields, = server.entries("a")
    assert (fields["ce_type"], fields["ce_source"], fields["data"]) == ("a", "outbox/default", '{"n":1}')
    one(server.url(), {"topic": "b", "payload": {"n": 1}}, format="structured")
    fields, = server.entries("b")
    assert '"specversion":"1.0"' in fields["data"] and fields["content-type"].startswith("application/cloudevents+json")


def test_bytes_and_emptiness(server):
    drive("redis", {"url": server.url(), "field": "body"},
          [{"topic": "a", "payload_hex": "00ff0a", "content_type": "application/octet-stream"},
           {"topic": "a", "payload_text": "", "content_type": "text/plain"}])
    import redis
    bodies = [dict(f)[b"body"] for _, f in redis.Redis(port=server.port).xrange("a")]
    assert bodies == [b"\x00\xff\n", b""]


def test_maxlen(server):
    drive("redis", {"url": server.url(), "maxlen": 5, "maxlen_exact": True}, [{**MESSAGE, "repeat": 20}])
    assert len(server.entries("orders")) == 5


def test_a_unix_socket_and_a_password(tmp_path):
    with Redis(tmp_path / "r", requirepass="s3cret", unixsocket=str(tmp_path / "s")) as server:
        assert one("unix://%s" % (tmp_path / "s"), password="s3cret")["outcome"] == "accepted"
        for more, code in [({}, "redis_noauth"), ({"password": "wrong"}, "redis_wrongpass")]:
            verdict = one(server.url(), **more)
            assert (verdict["outcome"], verdict["code"], verdict["scope"]) == ("blocked", code, "sink")
            assert "wrong" not in verdict["text"]
        server.client().acl_setuser("adder", enabled=True, passwords=["+p"], keys=["orders"], commands=["+xadd"])
        assert one(server.url(), username="adder", password="p")["outcome"] == "accepted"
        verdict = one(server.url(), {"topic": "other", "payload": {}}, username="adder", password="p")
        assert (verdict["outcome"], verdict["code"], verdict["scope"]) == ("blocked", "redis_noperm", "message")


# ---- the same message twice

def test_numbers_as_ids_keep_duplicates_out(server):
    """The second copy is found to be ours; another's entry in its place is not."""
    options = {"url": server.url(), "entry_id": "seq", "stream": "s:{{@key}}"}
    first = {"topic": "t", "payload": {}, "key": "k", "seq": 5, "id": "018bcfe5-6800-7abc-8def-000000000001"}
    verdicts = drive("redis", options, [first, first, {**first, "seq": 6}, first])
    assert [(v["outcome"], v["reference"]) for v in sorted(verdicts, key=lambda v: v["handle"])] == \
        [("accepted", "5-0"), ("accepted", "5-0"), ("accepted", "6-0"), ("accepted", "5-0")]
    assert len(server.entries("s:k")) == 2
    for seq in (5, 4):
        verdict, = drive("redis", options, [{**first, "seq": seq, "id": "018bcfe5-6800-7abc-8def-000000000009"}])
        assert (verdict["outcome"], verdict["code"]) == ("terminal", "redis_id_taken")
    assert drive("redis", options, [{"topic": "t", "payload": {}, "id": first["id"]}])[0]["outcome"] == "terminal"


def test_idmp_where_the_server_has_it():
    message = {**MESSAGE, "id": "018bcfe5-6800-7abc-8def-000000000001"}
    for version, dedupe, expected in [("8.6.1", "auto", True), ("8.4.9", "auto", False), ("10.0.0", "auto", True),
                                      ("7.0.15", "idmp", True), ("8.6.1", "none", False)]:
        with Resp(version=version) as server:
            assert one(server.url(), message, dedupe=dedupe, maxlen=9, producer="me")["outcome"] == "accepted"
            words, = server.xadds()
            start = ["XADD", "orders"] + (["IDMP", "me", message["id"]] if expected else [])
            assert words[:len(start) + 4] == start + ["MAXLEN", "~", "9", "*"]


SEQ = {"stream": "s:{{@key}}", "entry_id": "seq"}
KEYED = {**MESSAGE, "key": "k", "seq": 5}


def only_without_idmp(words):
    """What 8.6 says."""
    if words[0] == "XADD" and "IDMP" in words and "*" not in words:
        return b"-ERR IDMP/IDMPAUTO can be used only with auto-generated IDs\r\n"
    return None


@pytest.mark.parametrize("dedupe", ["auto", "idmp"])
def test_numbers_as_ids_go_without_idmp(dedupe):
    """Such a server takes it only with an id of its own."""
    with Resp(only_without_idmp, version="8.6.1") as server:
        verdict = one(server.url(), KEYED, dedupe=dedupe, **SEQ)
        assert (verdict["outcome"], server.xadds()[0][:3]) == ("accepted", ["XADD", "s:k", "5-0"])


TAKEN = b"-ERR The ID specified in XADD is equal or smaller than the target stream top item\r\n"
UNHEARD = b"-ERR unknown command\r\n"


@pytest.mark.parametrize("added, looked, outcome, code", [
    (TAKEN, b"*0\r\n", "terminal", "redis_id_taken"),
    (TAKEN, b"-NOPERM no\r\n", "blocked", "redis_noperm"),
    (TAKEN, b"-LOADING soon\r\n", "unknown", "redis_loading"),
    (TAKEN, b"-MOVED 1 h:1\r\n", "unknown", "redis_moved"),
    (TAKEN, b"-ERR what\r\n", "unknown", "redis_err"),
    (TAKEN, b"+what\r\n", "unknown", "redis_protocol"),
    (UNHEARD, UNHEARD, "unknown", "redis_err"),
    (UNHEARD, b"*0\r\n", "retry", "redis_err")])
def test_a_number_is_taken_only_when_the_stream_says_so(added, looked, outcome, code):
    """S13: the message may be in the stream since an earlier attempt: what cannot be looked at is not dead."""
    with Resp(lambda words: {"XADD": added, "XRANGE": looked}.get(words[0])) as server:
        verdict = one(server.url(), KEYED, **SEQ)
    assert (verdict["outcome"], verdict["code"]) == (outcome, code)


# ---- what goes wrong

TABLE = {"retry": ["LOADING", "MASTERDOWN", "CLUSTERDOWN", "TRYAGAIN", "BUSY", "NOREPLICAS", "READONLY", "MISCONF",
                   "ASK", "ERR", "SOMETHINGNEW"],
         "limited": ["OOM"],
         "blocked": ["NOAUTH", "WRONGPASS", "NOPERM", "WRONGTYPE", "DENIED"]}


@pytest.mark.parametrize("word, outcome", [(word, outcome) for outcome, words in TABLE.items() for word in words])
def test_error_words(word, outcome):
    """S13: by the first word, never by what stands behind it."""
    text = b"-%s NOAUTH OOM whatever\r\n" % word.encode()
    with Resp(lambda words: text if words[0] == "XADD" else None) as server:
        verdict = one(server.url(), stream="s")
    assert (verdict["outcome"], verdict["code"]) == (outcome, "redis_" + word.lower())
    down = ("LOADING", "MASTERDOWN", "CLUSTERDOWN", "BUSY", "NOREPLICAS", "READONLY", "MISCONF")
    assert verdict["unreachable"] == (word in down)


def test_a_replica_is_left_for_the_server_that_may_write(tmp_path):
    """READONLY: the connection is made anew, so that a changed name or proxy is followed."""
    with Redis(tmp_path / "m") as master, Redis(tmp_path / "r") as replica:
        replica.client().replicaof("127.0.0.1", master.port)
        with Drive("redis", {"url": replica.url()}) as sink:
            sink.send(MESSAGE)
            verdict = sink.verdict()
            assert (verdict["outcome"], verdict["code"]) == ("retry", "redis_readonly")
            before = replica.client().info("stats")["total_connections_received"]
            replica.client().replicaof("NO", "ONE")
            sink.send(MESSAGE)
            assert sink.verdict()["outcome"] == "accepted"
            assert replica.client().info("stats")["total_connections_received"] >= before + 2


def test_real_errors(server):
    client = server.client()
    client.set("orders", "no stream")
    verdict = one(server.url(), stream="orders")
    assert (verdict["outcome"], verdict["code"], verdict["scope"]) == ("blocked", "redis_wrongtype", "sink")
    assert one(server.url())["scope"] == "message"
    verdict = one(server.url(), {"topic": "none", "payload": {}}, create=False)
    assert (verdict["outcome"], verdict["code"]) == ("blocked", "redis_no_stream")
    client.config_set("maxmemory", "1mb")
    try:
        verdict = one(server.url(), {"topic": "more", "payload": {}})
    finally:
        client.config_set("maxmemory", "0")
    assert (verdict["outcome"], verdict["code"], verdict["scope"]) == ("limited", "redis_oom", "sink")
    verdict = one(server.url(999))
    assert (verdict["outcome"], verdict["scope"]) == ("blocked", "sink")


def test_wait_for_replicas(tmp_path):
    with Redis(tmp_path / "m") as master, Redis(tmp_path / "r") as replica:
        options = {"url": master.url(), "wait_replicas": 1, "wait_timeout": "200ms"}
        verdict, = drive("redis", options, [MESSAGE])
        assert (verdict["outcome"], verdict["code"]) == ("unknown", "redis_wait")
        replica.client().replicaof("127.0.0.1", master.port)
        wait_for(lambda: master.client().info("replication").get("slave0", {}).get("state") == "online")
        verdicts = drive("redis", {**options, "wait_timeout": "5s", "ack_timeout": "9s"}, [{**MESSAGE, "repeat": 50}])
        assert {v["outcome"] for v in verdicts} == {"accepted"}
        assert len(replica.entries("orders")) == 51


@pytest.mark.parametrize("answer, outcome", [(b"-ERR unknown command 'WAIT'\r\n", "blocked"),
                                             (b"-NOPERM no\r\n", "blocked"), (b"-LOADING soon\r\n", "unknown")])
def test_a_wait_that_fails_says_why(answer, outcome):
    """S13: it is on the master; and a server that cannot wait is a matter of the set-up."""
    with Resp(lambda words: answer if words[0] == "WAIT" else None) as server:
        verdict = one(server.url(), wait_replicas=1)
    assert (verdict["outcome"], verdict["scope"]) == (outcome, "sink")
    assert answer.decode().strip("-\r\n") in verdict["text"] and "7-0" in verdict["text"]


@pytest.mark.parametrize("options, words", [
    ({"wait_replicas": 1, "wait_timeout": "5s", "ack_timeout": "5s"}, "wait_timeout must be shorter than ack_timeout"),
    ({"username": "u"}, "username needs a password")])
def test_settings_that_cannot_work_are_refused(options, words):
    with pytest.raises(OpenError, match=words):
        Drive("redis", {"url": "redis://h", **options})


def test_a_cluster_is_followed(tmp_path):
    """MOVED: all goes to the node that has the slot, and nothing is spent on it."""
    buses = [free_port(), free_port()]
    with Redis(tmp_path / "a", cluster_enabled="yes", cluster_port=buses[0]) as one_node, \
            Redis(tmp_path / "b", cluster_enabled="yes", cluster_port=buses[1]) as other:
        nodes = [one_node.client(), other.client()]
        slot = nodes[0].execute_command("CLUSTER KEYSLOT", "orders")
        nodes[1].execute_command("CLUSTER ADDSLOTS", slot)
        nodes[0].execute_command("CLUSTER ADDSLOTS", *[n for n in range(16384) if n != slot])
        nodes[0].execute_command("CLUSTER MEET", "127.0.0.1", other.port, buses[1])
        wait_for(lambda: all(node.execute_command("CLUSTER INFO")["cluster_state"] == "ok" for node in nodes), 40)
        verdicts = drive("redis", {"url": one_node.url()}, [{**MESSAGE, "repeat": 20}])
        assert {v["outcome"] for v in verdicts} == {"accepted"}
        assert len(other.entries("orders")) == 20


def test_endless_redirects_end():
    with Resp(lambda words: b"-MOVED 1 :%d\r\n" % server.port if words[0] == "XADD" else None) as server:
        verdict = one(server.url())
    assert (verdict["outcome"], verdict["code"]) == ("retry", "redis_moved")


@pytest.mark.parametrize("word, options", [("PING", {}), ("AUTH", {"password": "p"}), ("SELECT", {"db": 1})])
def test_a_server_with_too_many_clients(word, options):
    """S13: it will have room again."""
    with Resp(lambda words: b"-ERR max number of clients reached\r\n" if words[0] == word else None) as server:
        verdict = one(server.url(), **options)
    assert (verdict["outcome"], verdict["unreachable"], verdict["scope"]) == ("retry", True, "sink")


def test_lost_after_the_write_is_unknown():
    with Resp(lambda words: False if words[0] == "XADD" else None) as server:
        verdict = one(server.url())
    assert (verdict["outcome"], verdict["code"], verdict["unreachable"]) == ("unknown", "redis_lost", True)


def test_no_answer_in_time_is_unknown(server):
    """S11: all that is out, and the next goes over a new connection."""
    with Drive("redis", {"url": server.url(), "ack_timeout": "300ms"}) as sink:
        sink.send(MESSAGE)
        assert sink.verdict()["outcome"] == "accepted"
        server.freeze()
        try:
            sink.send(MESSAGE, MESSAGE)
            for verdict in sink.verdicts(2).values():
                assert (verdict["outcome"], verdict["code"]) == ("unknown", "redis_timeout")
        finally:
            server.thaw()
        sink.send(MESSAGE)
        assert sink.verdict()["outcome"] == "accepted"


def test_order_within_a_key():
    """What follows a failure is never sent."""
    def answer(words):
        return b"-OOM no\r\n" if words[0] == "XADD" and words[1] == "bad" else None
    key = [{"topic": "t", "key": "k", "seq": n, "follows": n > 1} for n in range(1, 5)]
    key[1]["topic"] = "bad"
    with Resp(answer) as server:
        verdicts = drive("redis", {"url": server.url()}, [{"batch": key + [{"topic": "t", "key": "l", "seq": 1}]}])
        assert {v["handle"]: v["outcome"] for v in verdicts} == {1: "accepted", 2: "limited", 3: "not_sent",
                                                                 4: "not_sent", 5: "accepted"}
        assert len(server.xadds()) == 3


def test_cancel(server):
    """S11: nobody hears of what was cancelled, and what followed is given back."""
    server.freeze()
    try:
        with Drive("redis", {"url": server.url()}) as sink:
            sink.send({"batch": [{**MESSAGE, "key": "k"}, {**MESSAGE, "key": "k", "follows": True}]}, {"cancel": 1})
            verdict = sink.verdict()
            assert (verdict["handle"], verdict["outcome"]) == (2, "not_sent")
            server.thaw()
            sink.send(MESSAGE)
            assert sink.verdict()["handle"] == 3
    finally:
        server.thaw()


def test_probe(server):
    verdict = one(server.url(), {"probe": True})
    assert verdict["outcome"] == "accepted"
    assert server.client().keys() == []


# ---- outages

def test_nothing_is_lost_when_the_server_restarts_and_dies(tmp_path):
    """N3: through a restart, a kill -9 and a stall; order of each key kept."""
    with Redis(tmp_path / "redis") as server:
        def stall():
            server.freeze()
            time.sleep(0.7)
            server.thaw()
        voyage(tmp_path, {"kind": "redis", "url": server.url(), "ack_timeout": "400ms", "connect_timeout": "300ms"},
               lambda: [int(e["data"][6:-1]) for e in server.entries("orders")],
               [server.restart, server.kill_and_start, stall])


def test_no_duplicates_with_numbers_as_ids(tmp_path):
    with Redis(tmp_path / "redis") as server:
        def arrivals():
            client = server.client()
            return [int(f["data"][6:-1]) for key in sorted(client.keys("s:*")) for _, f in client.xrange(key)]
        twice = voyage(tmp_path, {"kind": "redis", "url": server.url(), "stream": "s:{{@key}}", "entry_id": "seq"},
                       arrivals, [server.kill_and_start, server.restart])
        assert twice == 0
