"""`outbox dev`: relay, receiver and page in one process, and `make demo`, the story told with it.

Proves: M6 (a first message without reading anything else), N6 (a failing receiver is explained), V13 (a dead letter is retried).
"""
import contextlib
import json
import os
import re
import signal
import sqlite3
import subprocess
import urllib.error
import urllib.request

import pytest

from support.box import Box
from support.database import CLI, ROOT, run_cli
from support.relay import wait_for
from support.under import PATIENCE


class Dev:
    def __init__(self, folder, *args):
        self.box = Box("sqlite:%s" % (folder / "dev.db"))
        self.out = folder / "out"
        with open(self.out, "wb") as out, open(folder / "err", "wb") as err:
            self.process = subprocess.Popen([CLI, "dev", "dev.db", "--listen", "127.0.0.1:0", *args], cwd=folder, stdin=subprocess.PIPE,
                                            stdout=out, stderr=err)
        self.err = folder / "err"
        wait_for(lambda: self.process.poll() is not None or "/answer" in self.text(), what="its first lines")
        assert self.process.poll() is None, self.text() + self.err.read_text()
        self.page, self.hook = (re.search(word + r" +(http://127\.0\.0\.1:\d+)/", self.text()).group(1) for word in ("page", "receiver"))

    def text(self):
        return self.out.read_text()

    def type(self, word):
        self.process.stdin.write(word.encode() + b"\n")
        self.process.stdin.flush()

    def printed(self, pattern):
        return wait_for(lambda: re.search(pattern, self.text(), re.MULTILINE), what=lambda: "%s in %s" % (pattern, self.text()))

    def ask(self, method, path, body=None, **headers):
        request = urllib.request.Request(self.hook + path, data=body, method=method, headers=headers)
        try:
            with urllib.request.urlopen(request, timeout=20) as answer:
                return answer.status, answer.read().decode()
        except urllib.error.HTTPError as error:
            return error.code, error.read().decode()

    def stop(self, number=signal.SIGINT):
        self.process.send_signal(number)
        assert self.process.wait(30 * PATIENCE) == 0, self.err.read_text()


@pytest.fixture
def start(tmp_path):
    started = []

    def go(*args):
        started.append(Dev(tmp_path, *args))
        return started[-1]
    yield go
    for dev in started:
        dev.process.stdin.close()
        if dev.process.poll() is None:
            dev.process.kill()
            dev.process.wait()


def test_a_message_is_delivered_and_printed(start):
    """M6: the file is created, the delivery appears with topic, key, payload and answer; metrics are there; Ctrl-C ends it."""
    dev = start()
    assert "a new file" in dev.text()
    dev.box.send("orders.paid", '{"id": 42}', "--key", "order-42")
    dev.printed(r'orders\.paid +key order-42  attempt 1  \{"id": 42\}  -> 204$')
    with urllib.request.urlopen(dev.page + "/metrics", timeout=20) as answer:
        assert b"outbox_up 1" in answer.read()
    dev.stop()
    again = start()
    assert "a new file" not in again.text()
    again.stop(signal.SIGTERM)


def test_the_receiver_does_as_it_is_told(start):
    """N6 V13: by flag, by a typed word, by its control path; a failing receiver is explained, a dead letter retried."""
    dev = start("--answer", "fail")
    id_ = dev.box.send("t", "1")
    dev.printed(r"attempt 2  1  -> 500$")
    assert dev.ask("GET", "/answer") == (200, "fail")
    assert wait_for(lambda: dev.box.json("explain", id_)["answers"][0]["state"] in ("backoff", "due"), what="a reason")
    dev.type("refuse")
    dev.printed("^.*the receiver answers refuse")
    dev.printed(r"-> 422$")
    wait_for(lambda: dev.box.show(id_)["message"]["status"] == "dead", what="a dead letter")
    assert dev.ask("PUT", "/answer", b"limit\n") == (200, "limit")
    limited = dev.box.send("limited", "2")
    dev.printed(r"limited .*-> 429$")
    assert dev.ask("PUT", "/answer", b"ok") == (200, "ok")
    dev.box.cli("retry", id_, "--reason", "fixed")
    wait_for(lambda: {dev.box.show(one)["message"]["status"] for one in (id_, limited)} == {"delivered"}, what="both delivered")
    assert dev.ask("PUT", "/answer", b"down")[0] == 200
    dev.box.send("down", "3")
    dev.printed(r"down .*-> no answer$")
    dev.type("nonsense")
    wait_for(lambda: "type ok, fail" in dev.err.read_text(), what="help")
    dev.type("slow")
    dev.printed("answers slow")
    dev.type("quit")
    assert dev.process.wait(30 * PATIENCE) == 0


def test_the_page_needs_no_token_here(start):
    """M6: the API of `outbox dev` lets its own machine in, also without a token; the last hour is there for the charts."""
    dev = start()
    with urllib.request.urlopen(dev.page + "/api/v1/me", timeout=20) as answer:
        me = json.load(answer)
    assert me["role"] == "admin" and me["dev"]
    with urllib.request.urlopen(dev.page + "/api/v1/series?minutes=60", timeout=20) as answer:
        assert json.load(answer)["step_s"] == 60
    with pytest.raises(urllib.error.HTTPError) as refused:
        urllib.request.urlopen(dev.page + "/api/v1/series?minutes=61", timeout=20)
    assert refused.value.code == 400
    with pytest.raises(urllib.error.HTTPError) as refused:
        urllib.request.urlopen(urllib.request.Request(dev.page + "/api/v1/me", headers={"Origin": "http://elsewhere.example"}), timeout=20)
    assert refused.value.code == 403


def test_what_is_not_trusted(start):
    """S5: what a payload does to a terminal is escaped; pages of other sites, other methods and large bodies are refused."""
    dev = start()
    dev.box.send("t", '"\\u001b[31mred"', "--key", "a\u202eb")
    dev.printed(r"-> 204$")
    with contextlib.closing(sqlite3.connect(dev.box.url[len("sqlite:"):], timeout=20)) as conn, conn:
        conn.execute("insert into outbox (topic, payload, content_type) values ('raw', x'1b5b33316d0a', 'text/plain')")
    dev.printed(r"raw .*-> 204$")
    assert "\x1b" not in dev.text() and "\u202e" not in dev.text()
    assert dev.ask("PUT", "/answer", b"fail", Origin="http://example.org")[0] == 403
    assert dev.ask("PUT", "/answer", b"perhaps")[0] == 400
    assert dev.ask("GET", "/else")[0] == 405
    assert dev.ask("POST", "/", b"x" * 5000000)[0] == 413
    assert dev.ask("GET", "/answer") == (200, "ok")
    dev.stop()


@pytest.mark.parametrize("args, told", [
    (["--store", "postgresql:///shop"], "takes a file of SQLite only"),
    (["postgresql:///shop"], "takes a file of SQLite only"),
    (["--listen", "0.0.0.0:0"], "not a loopback address"),
    (["--listen", "localhost"], "not a loopback address"),
    (["--answer", "perhaps"], "none of ok, fail"),
    (["a.db", "--store", "sqlite:b.db"], "not both"),
    (["--listen", "127.0.0.1:0", "--set", "relay.poll=never"], "--set has errors"),
])
def test_what_it_refuses(args, told, tmp_path):
    """S5: other stores, whose messages it would take; an address that others can reach."""
    done = subprocess.run([CLI, "dev", *args], cwd=tmp_path, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.PIPE,
                          text=True, timeout=60)
    assert done.returncode in (2, 78) and told in done.stderr, done.stderr


def test_it_reads_no_environment_and_no_file(start, tmp_path, monkeypatch):
    """S5: OUTBOX_STORE and ./outbox.yaml name the store of somebody's work; neither is touched."""
    monkeypatch.setenv("OUTBOX_STORE", "sqlite:%s" % (tmp_path / "work.db"))
    monkeypatch.setenv("OUTBOX_RELAY_POLL", "never")
    (tmp_path / "outbox.yaml").write_text("nonsense")
    run_cli("init", "sqlite:%s" % (tmp_path / "work.db"))
    Box("sqlite:%s" % (tmp_path / "work.db")).send("t", "1", "--config", os.devnull)
    dev = start()
    dev.box.send("t", "2", "--config", os.devnull)
    dev.printed(r"attempt 1  2  -> 204$")
    dev.stop()
    assert "attempt 1  1 " not in dev.text()


# ---- the demo


def demo(tmp_path, **env):
    return subprocess.Popen([os.path.join(ROOT, "tools", "demo"), str(tmp_path / "demo.db")], stdin=subprocess.DEVNULL,
                            stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, env={**os.environ, **env}, start_new_session=True)


def test_the_demo_tells_its_story(tmp_path):
    """M6 N6 V13: make demo, which ends by itself: delivered, explained, dead, retried; and nothing of what rolled back."""
    process = demo(tmp_path)
    try:
        text = process.communicate(timeout=120 * PATIENCE)[0]
    finally:
        process.kill()
    assert process.returncode == 0, text
    parts = ["COMMIT", "ROLLBACK", "order-42", "-> 204", "-> 500", "backoff", "-> 422", "outbox retry", "-> 204", "delivered", "the receiver was fixed"]
    at = 0
    for part in parts:
        at = text.find(part, at)
        assert at >= 0, (part, text)
    assert "order-43  attempt" not in text
    assert Box("sqlite:%s" % (tmp_path / "demo.db")).json("status")["relays"] == []


def test_the_demo_stays(tmp_path):
    """M6: make demo KEEP=1, until it is told to end."""
    process = demo(tmp_path, KEEP="1")
    lines = []
    try:
        for line in process.stdout:
            lines.append(line)
            if "It runs until Ctrl-C" in line:
                break
        assert process.poll() is None
        for line in process.stdout:
            lines.append(line)
            if "to send" in line:
                break
        Box("sqlite:%s" % (tmp_path / "demo.db")).send("hello", '{"from": "me"}')
        assert any('hello' in line and "-> 204" in line for line in iter(process.stdout.readline, "")), lines
        process.terminate()
        process.wait(30 * PATIENCE)
    finally:
        with contextlib.suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)
        process.stdout.close()
    wait_for(lambda: Box("sqlite:%s" % (tmp_path / "demo.db")).json("status")["relays"] == [], what="no relay")
