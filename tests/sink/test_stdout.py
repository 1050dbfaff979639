"""The stdout sink. Proves: N3 (stdout), M19 (every line says what a receiver needs), S13 (codes)."""
import json
import os
import select
import subprocess
import time

import pytest

from support.sinkdrive import command, needs_sinks
from support.under import PATIENCE

pytestmark = needs_sinks

FULL = {"topic": "orders.paid", "key": "o 1", "seq": 3, "attempt": 2, "dedupe_key": "d", "subject": "s",
        "tenant": "0a0a0a0a-1111-4222-8333-444444444444", "payload": {"text": "one\ntwo"}, "headers": {"h": "v"}}


class Stdout:
    """A sink-drive whose stdout belongs to the sink; verdicts come by a pipe of their own."""

    def __init__(self, options=None, stdout=subprocess.PIPE):
        ours, theirs = os.pipe()
        self.process = subprocess.Popen([*command("stdout", options, 5), "--out", str(theirs)], stdin=subprocess.PIPE,
                                        stdout=stdout, pass_fds=[theirs])
        os.close(theirs)
        self.verdicts = os.fdopen(ours, "rb", buffering=0)  # select() must see what is there
        assert self.verdict() == {"opened": "stdout"}

    def send(self, *lines):
        self.process.stdin.write(b"".join(json.dumps(line).encode() + b"\n" for line in lines))
        self.process.stdin.flush()

    def verdict(self):
        return json.loads(self.verdicts.readline())

    def finish(self):
        self.process.stdin.close()
        rest = [json.loads(line) for line in self.verdicts]
        assert self.process.wait(timeout=20 * PATIENCE) == 0
        self.verdicts.close()
        return rest

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.process.kill()
        self.process.wait()


def lines_for(options, *messages):
    with Stdout(options) as sink:
        sink.send(*messages)
        verdicts = [sink.verdict() for _ in messages]
        assert {v["outcome"] for v in verdicts} == {"accepted"}
        sink.process.stdin.close()
        out = sink.process.stdout.read().decode()
        assert sink.process.wait(timeout=10 * PATIENCE) == 0
        return out.splitlines()


def test_a_line_has_all_of_a_message():
    """M19"""
    [line] = lines_for({}, FULL)
    record = json.loads(line)
    for name in ("topic", "key", "seq", "attempt", "dedupe_key", "subject", "tenant", "payload", "headers"):
        assert record[name] == FULL[name]
    assert record["id"] and record["created_at"].endswith("Z")


def test_other_forms():
    assert 'key="o 1" seq=3' in lines_for({"format": "logfmt"}, FULL)[0]
    assert lines_for({"format": "payload"}, FULL) == ['{"text":"one\\ntwo"}']
    event = json.loads(lines_for({"format": "cloudevent"}, FULL)[0])
    assert (event["specversion"], event["type"], event["partitionkey"]) == ("1.0", "orders.paid", "o 1")
    assert lines_for({"format": "payload"}, {"topic": "t", "content_type": "text/plain", "payload_text": "hi"}) == ["hi"]


def test_order_is_kept():
    got = lines_for({"format": "payload"}, *[{"topic": "t", "payload": n} for n in range(500)])
    assert got == [str(n) for n in range(500)]


def test_a_closed_pipe_blocks():
    """S13: nobody reads; the process lives, and says so."""
    with Stdout() as sink:
        sink.process.stdout.close()
        sink.send({"batch": [{"topic": "t", "key": "k"}, {"topic": "t", "key": "k", "follows": True}, {"topic": "t"}]})
        verdicts = {v["handle"]: v for v in (sink.verdict() for _ in range(3))}
        assert [verdicts[n]["outcome"] for n in (1, 2, 3)] == ["blocked", "not_sent", "blocked"]
        assert verdicts[1]["code"] == "stdout_epipe" and verdicts[1]["scope"] == "sink"
        sink.send({"probe": True})
        assert sink.verdict()["code"] == "stdout_epipe"
        assert sink.finish() == []


def test_a_reader_that_leaves_amid_a_line():
    """S13: what was begun may have been read; what was not begun was not."""
    with Stdout({"format": "payload"}) as sink:
        sink.send({"topic": "t", "payload": "x" * 200000}, {"topic": "t"}, {"probe": True})
        assert sink.verdict()["handle"] == 3  # both wait for room in the pipe by now
        sink.process.stdout.close()
        assert [sink.verdict()["outcome"] for _ in range(2)] == ["unknown", "blocked"]
        assert sink.finish() == []


def test_a_slow_reader_holds_nobody_up():
    """N3: the loop goes on while the pipe is full; nothing is lost when it is read again."""
    big = "x" * 20000
    with Stdout({"format": "payload"}) as sink:
        sink.send({"topic": "t", "payload": big, "repeat": 20})
        accepted = 0
        while select.select([sink.verdicts], [], [], 0.3 * PATIENCE)[0]:
            assert sink.verdict()["outcome"] == "accepted"
            accepted += 1
        assert 1 <= accepted < 20
        sink.send({"probe": True})  # still answers
        assert sink.verdict()["handle"] == 21
        got = b""
        deadline = time.monotonic() + 20 * PATIENCE
        while got.count(b"\n") < 20 and time.monotonic() < deadline:
            got += os.read(sink.process.stdout.fileno(), 65536)
        assert got == ('"%s"\n' % big).encode() * 20
        assert len([v for v in sink.finish() if v["outcome"] == "accepted"]) == 20 - accepted


def test_cancel_before_it_is_written():
    """S11: what was not begun is never written."""
    with Stdout({"format": "payload"}) as sink:
        sink.send({"topic": "t", "payload": "x" * 200000}, {"topic": "t", "payload": "later"}, {"cancel": 2},
                  {"probe": True})
        assert sink.verdict()["handle"] == 3  # now the cancel is done, and the pipe is still full
        out = b""
        while not out.endswith(b"\n"):
            out += os.read(sink.process.stdout.fileno(), 65536)
        assert [v["handle"] for v in sink.finish()] == [1]
        assert b"later" not in out + sink.process.stdout.read()


def test_what_follows_a_cancelled_line_is_not_written():
    """N2: the line before it in its key was taken back before it was begun."""
    with Stdout({"format": "payload"}) as sink:
        behind = [{"topic": "t", "payload": "later"}, {"topic": "t", "payload": "later still", "follows": True}]
        sink.send({"topic": "t", "payload": "x" * 200000}, {"batch": behind}, {"cancel": 2})
        verdict = sink.verdict()
        assert (verdict["handle"], verdict["outcome"]) == (3, "not_sent")
        out = b""
        while not out.endswith(b"\n"):
            out += os.read(sink.process.stdout.fileno(), 65536)
        assert [v["handle"] for v in sink.finish()] == [1]
        assert b"later" not in out + sink.process.stdout.read()


def test_a_file_as_stdout(tmp_path):
    with open(tmp_path / "out", "wb") as file, Stdout({"format": "payload"}, stdout=file) as sink:
        sink.send({"topic": "t", "payload": 1})
        assert sink.verdict()["outcome"] == "accepted"
        sink.finish()
    assert (tmp_path / "out").read_text() == "1\n"


def test_a_full_disk_is_retried():
    """S13"""
    with open("/dev/full", "wb") as full, Stdout(stdout=full) as sink:
        sink.send({"topic": "t"})
        verdict = sink.verdict()
        assert (verdict["outcome"], verdict["code"], verdict["unreachable"]) == ("retry", "stdout_enospc", True)
        sink.finish()
