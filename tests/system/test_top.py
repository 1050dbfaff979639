"""`outbox top`: a live view on a terminal, driven here through a pty.

Proves: V13 (operators see), N6 (lag and errors at a glance).
"""
import fcntl
import json
import os
import pty
import re
import select
import signal
import struct
import termios
import time

import pytest

from support.box import STORES, fresh_box
from support.database import CLI, run_cli

PATIENCE = 60


@pytest.fixture(params=STORES)
def box(request, tmp_path):
    return fresh_box(request, tmp_path)


class Screen:
    """A command on a terminal of its own: what it writes, interpreted as far as top needs it."""

    def __init__(self, *words, columns=100, rows=30):
        self.pid, self.master = pty.fork()
        if self.pid == 0:
            os.environ["TERM"] = "vt100"
            os.execv(CLI, [CLI, *words])
        self.resize(columns, rows, tell=False)
        self.raw = b""
        self.before = termios.tcgetattr(self.master)

    def __enter__(self):
        return self

    def __exit__(self, *_):
        try:
            os.kill(self.pid, signal.SIGKILL)
            os.waitpid(self.pid, 0)
        except (ProcessLookupError, ChildProcessError):
            pass
        os.close(self.master)

    def resize(self, columns, rows, tell=True):
        fcntl.ioctl(self.master, termios.TIOCSWINSZ, struct.pack("HHHH", rows, columns, 0, 0))
        if tell:
            os.kill(self.pid, signal.SIGWINCH)

    def key(self, text):
        os.write(self.master, text.encode())

    def pump(self, seconds):
        if select.select([self.master], [], [], seconds)[0]:
            try:
                self.raw += os.read(self.master, 65536)
            except OSError:  # the other side is closed
                return False
        return True

    def frame(self):
        """The lines of the last whole frame."""
        frames = self.raw.split(b"\x1b[H")
        whole = [part for part in frames[1:] if b"\x1b[J" in part]
        if not whole:
            return []
        text = re.sub(rb"\x1b\[[0-9;?]*[a-zA-Z]", b"", whole[-1].split(b"\x1b[J")[0]).decode()
        return text.split("\r\n")

    def wait(self, condition, what):
        until = time.monotonic() + PATIENCE
        while time.monotonic() < until:
            if condition(self.frame()):
                return self.frame()
            if not self.pump(0.2):
                break
        raise AssertionError("no %s: %s" % (what, "\n".join(self.frame()) or self.raw))

    def end(self):
        until = time.monotonic() + PATIENCE
        while time.monotonic() < until:
            self.pump(0.1)
            pid, status = os.waitpid(self.pid, os.WNOHANG)
            if pid:
                self.pump(0.1)
                return status
        raise AssertionError("it does not end")

    def is_restored(self):
        """The screen of before, the cursor, and the modes of the terminal."""
        left = self.raw.rsplit(b"\x1b[?1049h", 1)[-1]
        return b"\x1b[?1049l" in left and b"\x1b[?25h" in left and termios.tcgetattr(self.master)[3] == self.before[3]


def has(word):
    return lambda lines: any(word in line for line in lines)


def fill(box):
    box.kill("orders", "1", code="http_400", error="no such order \x1b[31m17")
    for number in range(3):
        box.send("mail", str(number))


def test_live(box):
    """V13 N6: topics, failures by group, sorting, pausing, new messages; nothing from a message reaches the terminal."""
    fill(box)
    with Screen("top", "--store", box.url) as screen:
        lines = screen.wait(has("default/mail"), "topic")
        assert lines[0].startswith("outbox top  20") and "pending 3" in lines[1] and "dead 1" in lines[1] and "relays 0" in lines[1]
        assert has("http_400: no such order \\x1b[31m17")(lines) and b"\x1b[31m17" not in screen.raw
        assert all(len(line) <= 100 for line in lines) and len(lines) <= 30
        assert has("by oldest")(lines)
        for order in ("pending", "dead"):
            screen.key("s")
            screen.wait(has("by %s" % order), "order")
        rows = [line.split()[0] for line in screen.frame() if line.startswith("default/")]
        assert rows == ["default/orders", "default/mail"]
        screen.key("p")
        screen.wait(has("display paused"), "pause")
        box.send("fresh", "1")
        time.sleep(0.1)
        screen.key("s")
        assert not has("default/fresh")(screen.wait(has("by name"), "order"))
        screen.key("p")
        screen.wait(has("default/fresh"), "new topic")
        screen.key("q")
        assert screen.end() == 0 and screen.is_restored()


def test_size(box):
    """V13: it follows the size of the window; a tiny one does no harm."""
    for number in range(25):
        box.send("topic%02d" % number, "1")
    with Screen("top", "--store", box.url, columns=120, rows=40) as screen:
        screen.wait(lambda lines: sum(line.startswith("default/") for line in lines) >= 20, "many topics")
        screen.resize(50, 15)
        lines = screen.wait(lambda lines: lines and max(map(len, lines)) <= 50 and len(lines) <= 15, "small frame")
        assert has("default/topic")(lines)
        screen.resize(5, 3)
        screen.wait(lambda lines: lines and max(map(len, lines)) <= 5, "tiny frame")
        screen.resize(100, 30)
        screen.wait(lambda lines: lines and max(map(len, lines)) > 50, "large frame")


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM, signal.SIGHUP, signal.SIGQUIT])
def test_signals_restore_the_terminal(tmp_path, number):
    """V13: whatever ends it, the terminal is as before."""
    url = "sqlite:%s" % (tmp_path / "outbox.db")
    run_cli("init", url)
    with Screen("top", "--store", url) as screen:
        screen.wait(has("TOPIC"), "frame")
        os.kill(screen.pid, number)
        status = screen.end()
        assert os.WIFSIGNALED(status) and os.WTERMSIG(status) == number and screen.is_restored()


def test_stop_and_continue(tmp_path):
    """V13: Ctrl-Z gives the terminal back; continuing takes it over again."""
    url = "sqlite:%s" % (tmp_path / "outbox.db")
    run_cli("init", url)
    with Screen("top", "--store", url) as screen:
        screen.wait(has("TOPIC"), "frame")
        os.kill(screen.pid, signal.SIGTSTP)
        until = time.monotonic() + PATIENCE
        while not screen.is_restored() and time.monotonic() < until:
            screen.pump(0.1)
        assert screen.is_restored()
        screen.raw = b""
        os.kill(screen.pid, signal.SIGCONT)
        screen.wait(has("TOPIC"), "frame again")
        assert not screen.is_restored()
        screen.key("q")
        assert screen.end() == 0 and screen.is_restored()


def test_for_scripts(box):
    """V13: without a terminal one frame without ANSI; --json is a document; errors are errors."""
    fill(box)
    done = box.cli("top")
    assert "\x1b" not in done.stdout and "default/mail" in done.stdout and "http_400" in done.stdout
    answer = json.loads(box.cli("top", "--json").stdout)
    assert answer["pending"] == 3 and answer["dead"] == 1 and [row["topic"] for row in answer["topics"]][0] == "mail"
    assert [(row["code"], row["dead"]) for row in answer["failures"]] == [("http_400", 1)]
    assert [row["topic"] for row in json.loads(box.cli("top", "--json", "--topic", "m*").stdout)["topics"]] == ["mail"]
    with Screen("top", "--once", "--store", box.url) as screen:
        assert screen.end() == 0 and b"\x1b[?1049h" not in screen.raw
    with Screen("top", "--store", "sqlite:/nowhere/at/all.db") as screen:
        assert os.WEXITSTATUS(screen.end()) != 0 and b"\x1b[?1049h" not in screen.raw
