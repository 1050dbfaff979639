"""The Kafka sink on a real broker: what arrives, in which order, and what the broker's refusals become.

Proves: T2, N2, N8, S13, M19.
"""
import json

import pytest

from support.kafkabroker import KafkaBroker
from support.relay import Relay, wait_for
from support.sinkdrive import Drive, drive, needs_kind

pytestmark = needs_kind("kafka")


@pytest.fixture(scope="module")
def broker():
    with KafkaBroker(users={"shop": "secret"}) as server:
        yield server


@pytest.fixture(scope="module")
def strict():
    """Makes no topic by itself."""
    with KafkaBroker(settings={"auto.create.topics.enable": "false"}, users={"shop": "secret"}) as server:
        yield server


def options(broker, **more):
    return {"brokers": broker.address, **{name.replace("__", "."): value for name, value in more.items()}}


def run_of(topic, key, count, payload=None):
    return [{"topic": topic, "key": key, "seq": n + 1, "payload": payload or {"n": n + 1}, "follows": n > 0}
            for n in range(count)]


def test_nothing_is_lost_and_keys_keep_their_order(broker):  # T2, N2, M19
    broker.create("ledger", 6)
    script = [{"batch": [m for key in range(40) for m in run_of("ledger", "key-%d" % key, 25)]}]
    verdicts = drive("kafka", options(broker), script, deadline=30)
    assert {v["outcome"] for v in verdicts} == {"accepted"} and len(verdicts) == 1000
    records = broker.read("ledger")
    assert len(records) == 1000
    seen = {}
    for record in records:
        seen.setdefault(record.key.decode(), []).append(json.loads(record.value)["n"])
        assert record.headers["outbox-key"] == record.key.decode()
        assert int(record.headers["outbox-seq"]) == seen[record.key.decode()][-1]
    assert len(seen) == 40 and all(seq == list(range(1, 26)) for seq in seen.values())
    assert len({r.headers["outbox-id"] for r in records}) == 1000


def test_a_new_topic_is_asked_for_at_once(broker):  # S9
    """librdkafka itself asks for topics that it learns of by a record once in a second."""
    broker.create("early")
    broker.create("late")
    with Drive("kafka", options(broker, kafka__debug="metadata"), deadline=30) as sink:
        for topic in ("early", "late"):
            sink.send({"topic": topic})
            assert sink.verdict()["outcome"] == "accepted"
    assert any("topics: leader query" in line for line in sink.log), sink.log


def test_keys_go_where_java_clients_send_them(broker):  # T2
    broker.create("java", 8)
    drive("kafka", options(broker), [{"topic": "java", "key": key} for key in ("a", "kafka", "order-1")], deadline=30)
    # DefaultPartitioner of the Java client: (murmur2(key) & 0x7fffffff) % 8
    assert {r.key.decode(): r.partition for r in broker.read("java")} == {
        key: (murmur2(key.encode()) & 0x7fffffff) % 8 for key in ("a", "kafka", "order-1")}


def murmur2(data):
    """As Kafka defines it, written from its description."""
    mask, m = 0xffffffff, 0x5bd1e995
    h = (0x9747b28c ^ len(data)) & mask
    whole = len(data) // 4 * 4
    for i in range(0, whole, 4):
        k = int.from_bytes(data[i:i + 4], "little") * m & mask
        k = (k ^ k >> 24) * m & mask
        h = (h * m & mask) ^ k
    if len(data) > whole:
        h = (h ^ int.from_bytes(data[whole:], "little")) * m & mask
    h = (h ^ h >> 13) * m & mask
    return h ^ h >> 15


def test_headers_tombstones_and_formats(broker):  # N8, M19, T2
    parent = "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01"
    message = {"topic": "shapes", "key": "k", "tenant": "red", "dedupe_key": "d", "correlation_id": "c",
               "payload": {"a": 1}, "headers": {"team": "blue", "traceparent": parent, "tracestate": "a=1,b=2"}}
    broker.create("shapes")
    drive("kafka", options(broker), [message, {"wait": True}, {**message, "payload": None}, {"wait": True},
                                     {**message, "headers": {"gone": "true"}}], deadline=30)
    drive("kafka", options(broker, tombstone_header="gone"), [{**message, "headers": {"gone": "true"}}], deadline=30)
    drive("kafka", options(broker, format="binary"), [message], deadline=30)
    drive("kafka", options(broker, format="structured"), [message], deadline=30)
    drive("kafka", options(broker, topic_prefix="sha"), [{**message, "topic": "pes"}], deadline=30)
    empty = {name: value for name, value in message.items() if name != "payload"}
    drive("kafka", options(broker), [{**empty, "payload_hex": ""}], deadline=30)
    plain, null, kept, gone, binary, structured, prefixed, nothing = broker.read("shapes")
    assert json.loads(plain.value) == {"a": 1} and plain.headers["team"] == "blue"
    assert plain.headers["outbox-tenant"] == "red" and plain.headers["outbox-dedupe-key"] == "d"
    assert plain.headers["traceparent"] == parent
    assert null.value is None and null.key == b"k"
    assert kept.value is not None and gone.value is None
    assert json.loads(binary.value) == {"a": 1} and binary.headers["ce_specversion"] == "1.0"
    assert binary.headers["ce_id"] == binary.headers["outbox-id"] and binary.headers["ce_type"] == "shapes"
    assert binary.key == b"k" and binary.headers["ce_partitionkey"] == "k"
    assert binary.headers["traceparent"] == parent and binary.headers["tracestate"] == "a=1,b=2"
    event = json.loads(structured.value)
    assert structured.key == b"k" and event["partitionkey"] == "k" and event["tracestate"] == "a=1,b=2"
    assert event["specversion"] == "1.0" and event["data"] == {"a": 1}
    assert structured.headers["content-type"].startswith("application/cloudevents+json")
    assert prefixed.headers["outbox-topic"] == "pes"
    assert nothing.value == b""  # not a tombstone


def test_a_bad_one_stops_its_key_and_nobody_else(broker):  # S13, N2
    """The topic takes less than the client does: the broker refuses the batch, and the sink finds the culprit."""
    broker.create("narrow", 1, max_message_bytes=4000)
    batch = run_of("narrow", "bad", 5)
    batch[2]["payload"] = {"text": "x" * 6000}
    batch += [{"topic": "narrow", "key": "good-%d" % n, "seq": 1, "payload": {"n": n}} for n in range(20)]
    with Drive("kafka", options(broker, kafka__linger__ms=100), deadline=30) as sink:
        sink.send({"topic": "narrow", "key": "first"})  # so that the broker knows the producer
        sink.verdict()
        sink.send({"batch": batch})
        verdicts = sink.verdicts(25)
    assert [verdicts[n]["outcome"] for n in range(2, 7)] == ["accepted", "accepted", "terminal", "not_sent", "not_sent"]
    assert verdicts[4]["code"] == "kafka_msg_size_too_large"
    assert {verdicts[n]["outcome"] for n in range(7, 27)} == {"accepted"}
    records = broker.read("narrow")
    assert [json.loads(r.value)["n"] for r in records if r.key == b"bad"] == [1, 2]
    assert sorted(r.key for r in records if r.key.startswith(b"good")) == sorted(b"good-%d" % n for n in range(20))


def test_a_record_without_a_key_in_a_compacted_topic(broker):  # S13
    broker.create("compacted", 1, cleanup_policy="compact")
    verdicts = drive("kafka", options(broker), [{"batch": [{"topic": "compacted"}, {"topic": "compacted", "key": "k"}]}],
                     deadline=30)
    assert {v["handle"]: v["outcome"] for v in verdicts} == {1: "terminal", 2: "accepted"}


def sasl(broker, password):
    return {"brokers": broker.sasl_address, "kafka.security.protocol": "sasl_plaintext",
            "kafka.sasl.mechanism": "PLAIN", "kafka.sasl.username": "shop", "kafka.sasl.password": password}


def test_wrong_credentials_block_the_sink(broker):  # S13
    with Drive("kafka", sasl(broker, "wrong-7f3a"), deadline=30) as sink:
        for _ in range(2):
            sink.send({"batch": run_of("ledger", "k", 2)})
            first = sink.verdict()
            assert (first["outcome"], first["scope"]) == ("blocked", "sink")
            assert first["code"] in ("kafka_authentication", "kafka_sasl_authentication_failed")
            assert sink.verdict()["outcome"] in ("not_sent", "blocked")
        sink.send({"probe": True})
        assert sink.verdict()["outcome"] == "blocked"
    assert "wrong-7f3a" not in "\n".join(sink.log)


def test_no_rights_block_the_sink(broker):  # S13
    verdicts = drive("kafka", sasl(broker, "secret"), [{"topic": "ledger", "key": "k"}], deadline=30)
    assert verdicts[0]["outcome"] == "blocked"
    assert verdicts[0]["code"] in ("kafka_cluster_authorization_failed", "kafka_topic_authorization_failed")


def until_accepted(sink, message, first):
    """Sends what is blocked again and again, as a relay does. Returns the verdicts before acceptance."""
    seen = []

    def accepted():
        sink.send(message)
        verdict = sink.verdict()
        if verdict["outcome"] != "accepted":
            assert (verdict["outcome"], verdict["scope"]) == ("blocked", "recipient"), verdict
            seen.append(verdict)
            if len(seen) == 1:
                first()
        return verdict["outcome"] == "accepted"

    wait_for(accepted, 40, "the sink to resume")
    return seen


def test_a_topic_made_afterwards_is_used(strict):  # S13
    with Drive("kafka", options(strict, delivery_timeout="3s"), deadline=60) as sink:
        seen = until_accepted(sink, {"topic": "later", "key": "k"}, lambda: strict.create("later"))
    assert seen[0]["code"].startswith("kafka_unknown_topic")
    assert 'topic "later"; create it' in seen[0]["text"]
    assert len(strict.read("later")) == 1


def test_a_right_granted_afterwards_is_used(strict):  # S13
    strict.create("guarded")
    strict.grant("shop", "IdempotentWrite", "--cluster")
    strict.grant("shop", "Describe", "--topic", "guarded")
    with Drive("kafka", sasl(strict, "secret"), deadline=60) as sink:
        seen = until_accepted(sink, {"topic": "guarded", "key": "k"},
                              lambda: strict.grant("shop", "Write", "--topic", "guarded"))
    assert seen[0]["code"] == "kafka_topic_authorization_failed"
    assert 'topic "guarded"; grant WRITE on it' in seen[0]["text"]
    assert len(strict.read("guarded")) == 1


class Host:
    """What a relay does, in short: sends a key's messages in order, and again what was not accepted."""

    def __init__(self, sink, keys, count):
        self.sink = sink
        self.next = {key: 1 for key in keys}
        self.count = count
        self.handles = 0
        self.outcomes = {}

    def send(self):
        batch, owners = [], {}
        for key, seq in self.next.items():
            for n in range(seq, min(seq + 10, self.count + 1)):
                self.handles += 1
                owners[self.handles] = (key, n)
                batch.append({"topic": "crash", "key": key, "seq": n, "payload": n, "follows": n > seq})
        self.sink.send({"batch": batch})
        verdicts = self.sink.verdicts(len(batch))
        for handle in sorted(owners):
            key, n = owners[handle]
            outcome = verdicts[handle]["outcome"]
            self.outcomes[outcome] = self.outcomes.get(outcome, 0) + 1
            if outcome == "accepted":
                assert n == self.next[key], "accepted behind one that was not"
                self.next[key] = n + 1
            else:
                assert outcome in ("retry", "unknown", "not_sent"), verdicts[handle]

    def done(self):
        return all(seq > self.count for seq in self.next.values())


def test_a_killed_broker_loses_nothing():  # N2, T2, S13
    with KafkaBroker() as broker:
        broker.create("crash", 3)
        with Drive("kafka", options(broker, delivery_timeout="2s"), deadline=60) as sink:
            host = Host(sink, ["k%d" % n for n in range(12)], 400)
            for _ in range(10):
                host.send()
            broker.kill()
            host.send()
            assert not host.done() and set(host.outcomes) > {"accepted"}
            broker.start()
            rounds = 0
            while not host.done():
                host.send()
                rounds += 1
                assert rounds < 200, host.outcomes
        firsts = {}
        for record in broker.read("crash"):
            seen = firsts.setdefault(record.key.decode(), [])
            n = int(record.value)
            if n not in seen:
                seen.append(n)
        assert len(firsts) == 12 and all(seen == list(range(1, 401)) for seen in firsts.values())


def test_a_relay_goes_on_after_a_killed_broker(db, tmp_path):  # T2, N2, M19
    """From PostgreSQL to Kafka, whose power goes in between: all arrive, and each key in order."""
    count, keys = 20000, 50
    with db.connect() as conn:
        conn.execute("select count(*) from (select outbox.enqueue('events', jsonb_build_object('n', g),"
                     " key => 'k' || g %% %s) from generate_series(1, %s) g) s", (keys, count))
        conn.commit()
    with KafkaBroker() as broker:
        broker.create("events", 3)
        sink = {"kind": "kafka", "brokers": broker.address, "concurrency": 500, "batch": 100, "delivery_timeout": "2s",
                "breaker": {"failures": 5, "base": "250ms", "cap": "1s"}, "retry": {"base": "200ms", "cap": "1s"},
                "max_attempts": 50}
        relay = Relay(tmp_path, db.url(), sinks={"out": sink}, routes=[{"sink": "out"}])
        relay.start("--until-empty")
        try:
            wait_for(lambda: sum(1 for _ in broker.read("events")) > 500, 60, "the first messages")
            broker.kill()
            assert relay.process.poll() is None
            broker.start()
            assert relay.wait(120) == 0, relay.log()[-3000:]
        finally:
            relay.kill()
        firsts, ids = {}, set()
        for record in broker.read("events"):
            if record.headers["outbox-id"] not in ids:
                firsts.setdefault(record.key, []).append(int(record.headers["outbox-seq"]))
            ids.add(record.headers["outbox-id"])
        assert len(ids) == count
        assert len(firsts) == keys and all(seen == list(range(1, count // keys + 1)) for seen in firsts.values())
    assert db.sql("select (select count(*) from outbox.dead), (select count(*) from outbox.queue)") == [(0, 0)]
