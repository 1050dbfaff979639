"""The relay as a process of its system: its log that nobody reads, its standard files, its descriptors.

Proves: S10 (bounded), N5 (one thing in trouble does not stop others), V12 (log), S15 (metrics).
"""
import os
import resource
import signal
import socket
import subprocess

import pytest

from support.database import CLI
from support.receiver import Hook
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
        text = read_until(reader, b"log lines were dropped", lambda: process.send_signal(signal.SIGHUP))
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
