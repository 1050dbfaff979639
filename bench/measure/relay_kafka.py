"""A backlog with keys delivered to a real Kafka broker, beside the null sink and beside librdkafka on its own.

What each side takes for a single message is taken off."""
import json
import os
import subprocess
import sys
from contextlib import closing

from harness import fill
from harness.relay import Relay

sys.path.insert(1, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "..", "tests"))

from support import kafkabroker  # noqa: E402

NAME = "relay-kafka"
TITLE = "PostgreSQL to a Kafka broker, order of keys kept, beside the null sink and raw production by librdkafka"
BAR, MEMORY_BAR_MB = 0.8, 64
KEYS, PARTITIONS = 1000, 6
FIRST = b"first0"  # the key of the single message
SINK = {"concurrency": 4000, "batch": 500, "run": 16}  # out at once, handed over at once, and of one key
RELAY = {"max_messages": 8000, "batch": 1000, "concurrency": 8000}


def raw(bench, report, broker, topic, count):
    """Its clock starts before the first record as well."""
    seconds, got = [], None
    for messages in (1, count):
        line = [os.path.join(bench.build, "bench/kafka_raw"), broker.address, topic, str(messages), str(KEYS), "200"]
        got = json.loads(subprocess.run(line, stdout=subprocess.PIPE, check=True, text=True).stdout)
        seconds.append(got["seconds"])
    report.sample("raw", rate=rate_of(count, *seconds), start_seconds=seconds[0], seconds=seconds[1],
                  relay_us=got["cpu_seconds"] / count * 1e6)


def rate_of(count, start, whole):
    return (count - 1) / max(whole - start, 0.001)


def run(bench, database, sink, count):
    with Relay(bench, database, {"out": {**SINK, **sink}}, relay=RELAY, until_empty=True) as relay:
        relay.wait()
    relay.check_delivered(count)
    return relay


def relayed(bench, report, label, filled, sink, count):
    with bench.fresh() as database:
        fill.ours(bench, database, 1, keys=1, prefix="first")
        start = run(bench, database, sink, 1).seconds
    with bench.fresh(filled) as database:
        relay = run(bench, database, sink, count)
    report.sample(label, rate=rate_of(count, start, relay.seconds), start_seconds=start, seconds=relay.seconds, count=count,
                  cpu_us=relay.backend_seconds / count * 1e6, relay_us=relay.cpu_seconds / count * 1e6,
                  peak_mb=relay.peak_kb / 1024)


def check_topic(broker, topic, count):
    """All of it once, and each key in order: otherwise the rate is that of something else."""
    last = {}
    for record in broker.read(topic):
        if record.key == FIRST:
            continue
        seq = int(record.headers["outbox-seq"])
        if seq != last.get(record.key, 0) + 1:
            raise RuntimeError("%s of key %s came behind %s" % (seq, record.key, last.get(record.key)))
        last[record.key] = seq
    if sum(last.values()) != count:
        raise RuntimeError("%d of %d arrived" % (sum(last.values()), count))


def measure(bench, report):
    count, rounds = bench.size(500000, 20000, brief=150000), bench.times(3)
    kafkabroker.fetch()
    with closing(kafkabroker.KafkaBroker()) as broker, bench.fresh() as filled:
        broker.start()
        fill.ours(bench, filled, count, keys=KEYS)
        bench.settle_down(filled)
        broker.create("warm", PARTITIONS)
        raw(bench, report, broker, "warm", min(count, 50000))  # Java is slow at first, to everybody
        report.data["samples"].clear()
        for turn in range(rounds):
            topics = ["raw-%d" % turn, "relay-%d" % turn]
            for topic in topics:
                broker.create(topic, PARTITIONS)
            raw(bench, report, broker, topics[0], count)
            relayed(bench, report, "null", filled, {"kind": "null"}, count)
            relayed(bench, report, "kafka", filled, {"kind": "kafka", "brokers": broker.address, "topic": topics[1]},
                    count)
            if turn == 0:
                check_topic(broker, topics[1], count)

    rows = [[label] + [report.median(label, field) if report.values(label, field) else None
                       for field in ("rate", "relay_us", "cpu_us", "peak_mb")] for label in ("raw", "null", "kafka")]
    print("  %d messages of 200 bytes, %d keys, %d partitions; CPU in us per message" % (count, KEYS, PARTITIONS))
    report.table(["", "msg/s", "own CPU", "backend CPU", "peak MB"], rows)
    rate = {label: report.median(label, "rate") for label in ("raw", "null", "kafka")}
    report.check("to Kafka / to the null sink", rate["kafka"] / rate["null"], BAR)
    report.check("peak memory in MB", report.median("kafka", "peak_mb"), MEMORY_BAR_MB, at_most=True)
    report.note("to Kafka / raw production: %.2f" % (rate["kafka"] / rate["raw"]))
