"""The relay as a process of its system: its log that nobody reads, its standard files, its descriptors.

Proves: S10 (bounded), N5 (one thing in trouble does not stop others), V12 (log), S15 (metrics).
"""
import os
import resource
import signal
import socket
import subprocess
import time
import urllib.request

import pytest

from support.database import CLI
from support.receiver import Hook, status
from support.relay import Relay, read_ledger, wait_for
from support.under import watched


def stub(tmp_path, **more):
    return {"out": {"kind": "stub", "ledger": str(tmp_path / "ledger"), **more}}


def start(relay, **how):
    relay.process = subprocess.Popen(watched(CLI, "run", "--config", str(relay.path)), stdout=subprocess.DEVNULL,
                                     **{"stderr": subprocess.DEVNULL, **how})
    return relay.process


# ---- the log ----


@pytest.mark.parametrize("kind", ["pipe", "socket"])
def test_a_log_that_nobody_reads_stops_nothing(shop, tmp_path, kind):
    """N5 V12: the pipe of stderr is full. Deliveries go on, lines are dropped and counted; when it is read again, that is
    said, and no line is torn."""
    if kind == "pipe":
        reader, writer = os.pipe()
        os.set_blocking(writer, False)
        try:
            while True:
                os.write(writer, b"-" * 1023 + b"\n")
        except BlockingIOError:
            os.set_blocking(writer, True)
    else:
        ours, theirs = socket.socketpair()
        reader, writer = ours.detach(), theirs.detach()
    relay = Relay(tmp_path, shop.url, stub(tmp_path), [{"sink": "out"}], admin=True)
    process = start(relay, stderr=writer)
    try:
        sent = shop.enqueue(1500)
        shop.wait(delivered=1500)
        assert len(read_ledger(tmp_path / "ledger")) == len(sent)
        assert os.get_blocking(writer), "it is the shell's too"
        wait_for(lambda: relay.metric("outbox_log_lines_dropped_total") > 0)
        os.close(writer)
        text = read_until(reader, b"log lines dropped", lambda: process.send_signal(signal.SIGHUP))
        process.terminate()
        text += read_all(reader)
        assert process.wait(30) == 0
    finally:
        relay.kill()
        os.close(reader)
    lines = [line for line in text.splitlines() if not line.startswith(b"-")]
    assert all(line.startswith(b"time=") for line in lines)
    assert b'msg="relay stopped"' in lines[-1] or any(b'msg="relay stopped"' in line for line in lines)


def read_until(reader, what, nudge):
    text, nudged = b"", False
    while what not in text:
        if not nudged and len(text) > 300000:
            nudge()
            nudged = True
        data = os.read(reader, 65536)
        assert data
        text += data
    return text


def read_all(reader):
    text = b""
    while data := os.read(reader, 65536):
        text += data
    return text


def test_a_relay_ends_though_nobody_reads_its_log(tmp_path, shop):
    """M15: the last lines are waited for, but not for ever."""
    reader, writer = os.pipe()
    relay = Relay(tmp_path, shop.url, stub(tmp_path), [{"sink": "out"}])
    process = start(relay, stderr=writer)
    try:
        os.close(writer)
        shop.enqueue(400)
        shop.wait(delivered=400)
        process.terminate()
        assert process.wait(30) == 0
    finally:
        relay.kill()
        os.close(reader)


# ---- standard files ----


@pytest.mark.parametrize("closed", [(2,), (0, 1, 2)])
def test_started_without_standard_files(tmp_path, shop, closed):
    """S10: the store's file or socket must not become stdout or stderr, and get what is printed."""
    relay = Relay(tmp_path, shop.url, stub(tmp_path), [{"sink": "out"}])
    relay.process = subprocess.Popen(
        ["/bin/sh", "-c", 'exec "$@" ' + " ".join("%d%s&-" % (fd, "<" if fd == 0 else ">") for fd in closed), "sh",
         *watched(CLI, "run", "--config", str(relay.path))],
        stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    try:
        shop.enqueue(3)
        shop.wait(delivered=3)
        for fd in closed:
            assert os.readlink("/proc/%d/fd/%d" % (relay.process.pid, fd)) == "/dev/null"
        relay.stop()
    finally:
        relay.kill()


# ---- descriptors ----


def limited(soft, hard):
    return lambda: resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))


def many_sinks(hook, count, **more):
    sinks = {"s%d" % i: {"kind": "http", "url": hook.url("/%d" % i), "allow": "127.0.0.0/8", **more} for i in range(count)}
    return sinks, [{"topic": "t%d" % i, "sink": "s%d" % i} for i in range(count)]


def slow(hook):
    def behave(request, sock):
        hook.stopping.wait(0.1)
        return status(204)(request, sock)
    return behave


def test_the_limit_is_raised(shop, tmp_path):
    """S10: the soft limit is for old programs; what the system allows is taken."""
    with Hook() as hook:
        relay = Relay(tmp_path, shop.url, *many_sinks(hook, 2))
        process = start(relay, preexec_fn=limited(40, 4096))
        try:
            shop.enqueue(4, topic="t0")
            shop.wait(delivered=4)
            assert resource.prlimit(process.pid, resource.RLIMIT_NOFILE) == (4096, 4096)
            relay.stop()
        finally:
            relay.kill()


def test_programs_get_the_limit_that_was_given(shop, tmp_path):
    """S10: a program that the relay runs does not inherit what the relay raised for itself."""
    told = tmp_path / "told"
    sinks = {"run": {"kind": "exec", "command": ["/bin/sh", "-c", "ulimit -Sn > %s; ulimit -Hn >> %s" % (told, told)]}}
    relay = Relay(tmp_path, shop.url, sinks, [{"sink": "run"}])
    process = start(relay, preexec_fn=limited(200, 4096))
    try:
        shop.enqueue(1)
        shop.wait(delivered=1)
        assert told.read_text().split() == ["200", "4096"]
        assert resource.prlimit(process.pid, resource.RLIMIT_NOFILE) == (4096, 4096)
        relay.stop()
    finally:
        relay.kill()


def test_sinks_leave_descriptors_to_the_stores(shop, tmp_path):
    """S10 N5: forty sinks may have 640 connections, and there are 300 descriptors. That is said, fewer are out at once, and
    every message is delivered once."""
    count = 40
    with Hook() as hook:
        hook.answer = slow(hook)
        relay = Relay(tmp_path, shop.url, *many_sinks(hook, count), log={"level": "info"})
        for i in range(count):
            shop.enqueue(20, topic="t%d" % i)
        with open(relay.log_path, "ab") as log:
            start(relay, stderr=log, preexec_fn=limited(300, 300))
        try:
            shop.wait(delivered=20 * count, timeout=60)
            relay.stop()
        finally:
            relay.kill()
        assert len(hook.accepted) == 20 * count
        assert 'msg="file descriptor limit too low' in relay.log()
        assert "limit=300" in relay.log() and "out of descriptors" not in relay.log()


def test_a_configuration_that_cannot_fit_is_refused(tmp_path, shop):
    """V11 S10: with so few descriptors nothing would work: it says how many it takes."""
    with Hook() as hook:
        relay = Relay(tmp_path, shop.url, *many_sinks(hook, 20))
        (sent,) = shop.enqueue(topic="t0")
        process = start(relay, stderr=subprocess.PIPE, preexec_fn=limited(64, 64), text=True)
        text = process.communicate(timeout=30)[1]
        assert process.returncode != 0 and "need at least" in text and "ulimit -n" in text, text
        assert shop.message(sent.id, "status", "attempts") == ("pending", 0)


def test_without_a_descriptor_a_sink_waits(shop, tmp_path):
    """N5 S10: descriptors run out while it runs: nothing is spent, that is said and counted, and no claim is made over and
    over. When there are some again, all is delivered."""
    with Hook() as hook:
        relay = Relay(tmp_path, shop.url, *many_sinks(hook, 2), admin=True)
        with relay.running():
            shop.enqueue(topic="t0")
            shop.wait(delivered=1)
            before = resource.prlimit(relay.process.pid, resource.RLIMIT_NOFILE)
            urllib.request.urlopen("http://127.0.0.1:%d/live" % relay.port).read()
            used = max(map(int, os.listdir("/proc/%d/fd" % relay.process.pid))) + 1
            resource.prlimit(relay.process.pid, resource.RLIMIT_NOFILE, (used, before[1]))
            holes = used - len(os.listdir("/proc/%d/fd" % relay.process.pid))
            sent = shop.enqueue(40, topic="t1")
            wait_for(lambda: relay.logged("out of descriptors or memory"))
            claims = relay.log().count("msg=claimed")
            time.sleep(1.5)
            assert relay.log().count("msg=claimed") - claims <= 400, holes
            resource.prlimit(relay.process.pid, resource.RLIMIT_NOFILE, before)
            assert relay.metric("outbox_shortages_total") > 0
            shop.wait(delivered=41, timeout=40)
        assert all([outcome for _, outcome in shop.attempts(m.id)] == ["delivered"] for m in sent)
        assert len(hook.accepted) == 41
