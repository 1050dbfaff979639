"""The RabbitMQ sink and what a broker does only in rare states, by a broker of a few lines. Proves: S13, S11."""
import os
import time

from pika import spec

from support.amqpserver import Scripted
from support.relay import wait_for
from support.sinkdrive import Drive, drive, needs_kind

pytestmark = needs_kind("amqp")

MESSAGE = {"topic": "q", "payload": {"n": 1}}


def cpu_seconds(pid):
    with open("/proc/%d/stat" % pid) as file:
        words = file.read().rpartition(")")[2].split()
    return (int(words[11]) + int(words[12])) / os.sysconf("SC_CLK_TCK")


def test_an_alarm_does_not_make_us_spin():
    """S11: what was out when it began is waited for, beyond ack_timeout, and by sleeping."""
    out = []

    def alarm(server, tag, props):
        server.say(spec.Connection.Blocked("low on memory"), 0)
        out.append(tag)
    with Scripted(alarm) as server, Drive("amqp", {"url": server.url(), "ack_timeout": "1s"}) as sink:
        sink.send(MESSAGE)
        wait_for(lambda: out)
        time.sleep(1.2)  # the time limit passes
        before = cpu_seconds(sink.process.pid)
        time.sleep(1.2)
        assert cpu_seconds(sink.process.pid) - before < 0.3
        server.say(spec.Connection.Unblocked(), 0)
        time.sleep(0.2)  # and begins anew
        server.ack(1)
        assert sink.verdict()["outcome"] == "accepted"


def test_headers_larger_than_the_brokers_frames():
    """S13: such a message is dead and leaves no trace on the connection, over which the others go."""
    large = {**MESSAGE, "headers": {"h%d" % n: "x" * 100 for n in range(100)}}
    with Scripted(frame_max=4096) as server, Drive("amqp", {"url": server.url()}) as sink:
        sink.send({"batch": [MESSAGE, large, MESSAGE]})
        verdicts = sink.verdicts(3)
        assert [verdicts[n]["outcome"] for n in (1, 2, 3)] == ["accepted", "terminal", "accepted"]
        assert verdicts[2]["code"] == "amqp_headers_too_large" and "4096" in verdicts[2]["text"]
        assert server.connections == 1


def test_headers_that_just_fit():
    """S13: no byte of a frame is given away for nothing."""
    found = {}
    with Scripted(frame_max=4096) as server, Drive("amqp", {"url": server.url()}) as sink:
        for size in range(3400, 4000, 20):
            sink.send({**MESSAGE, "headers": {"h": "x" * size}})
            found[size] = sink.verdict()["outcome"]
        assert server.connections == 1
    sizes = {outcome: [size for size in found if found[size] == outcome] for outcome in ("accepted", "terminal")}
    assert sorted(sum(sizes.values(), [])) == sorted(found) and max(sizes["accepted"]) + 20 == min(sizes["terminal"])


def test_two_copies_that_come_back_are_two():
    """S13: a copy that was given up may still be out when the message is sent again; each has its return."""
    held = []

    def refuse(server, tag, props):
        held.append(props)
        if tag == 2:
            for each in held:
                server.give_back(each)
            server.ack(2, multiple=True)
    copy = {**MESSAGE, "id": "018bcfe5-6800-7abc-8def-000000000001"}
    with Scripted(refuse) as server:
        verdicts = drive("amqp", {"url": server.url()}, [{"batch": [copy, copy]}])
    assert [(v["outcome"], v["code"]) for v in verdicts] == [("blocked", "amqp_312")] * 2
