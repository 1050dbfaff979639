"""Adapters from Python, through the program sink-drive (its head in tests/sink/sink_drive.c says all it can do).

    verdicts = drive("http", {"url": url, "headers.X-Team": "red"}, [{"topic": "a", "payload": {"n": 1}}])
    assert verdicts[0]["outcome"] == "accepted"

    with Drive("http", {"url": url}) as sink:          # step by step
        sink.send({"topic": "a", "payload": {}})
        assert sink.verdict()["outcome"] == "unknown"

A value that is a list gives one option per element. True and False are written as in YAML.
"""
import functools
import itertools
import json
import os
import queue
import re
import subprocess
import threading

import pytest

from support.database import BUILD
from support.under import PATIENCE, UNDER, watched

PROGRAM = os.path.join(BUILD, "tests", "sink", "sink-drive")
LIMITS = ("connect_timeout", "response_timeout", "ack_timeout", "delivery_timeout")

needs_sinks = pytest.mark.skipif(not os.path.exists(PROGRAM), reason="this build has no sinks")


def has_kind(kind):
    """Whether this build has the adapter."""
    with open(os.path.join(BUILD, "src", "sink", "sink_have.h")) as file:
        return "#define HAVE_SINK_%s 1\n" % kind.upper() in file.read()


def needs_kind(kind):
    return pytest.mark.skipif(not (os.path.exists(PROGRAM) and has_kind(kind)), reason="this build has no sink " + kind)


@functools.lru_cache
def longer_limits(kind):
    """The time limits of an adapter as a slow program needs them; what a test says itself stays."""
    if not UNDER:
        return {}
    done = subprocess.run([PROGRAM, "--kind", kind, "--describe"], stdout=subprocess.PIPE, stderr=subprocess.DEVNULL)
    rows = {row["name"]: row["fallback"] for row in map(json.loads, done.stdout.splitlines()) if "name" in row}
    limits = {name: re.fullmatch(r"(\d+)(ms|s|m)", rows.get(name) or "") for name in LIMITS}
    return {name: "%d%s" % (int(limit[1]) * PATIENCE, limit[2]) for name, limit in limits.items() if limit}


def command(kind, options, deadline, watch=True):
    words = [PROGRAM, "--kind", kind, "--deadline", str(int(deadline * PATIENCE * 1000))]
    words = watched(*words) if watch else words
    for name, value in {**longer_limits(kind), **(options or {})}.items():
        for element in value if isinstance(value, (list, tuple)) else [value]:
            text = str(element).lower() if isinstance(element, bool) else str(element)
            words += ["--set", "%s=%s" % (name, text)]
    return words


def preload(folder, name, code):
    """The environment in which functions of a library are those of this C text instead."""
    source, library = os.path.join(folder, name + ".c"), os.path.join(folder, name + ".so")
    with open(source, "w") as file:
        file.write(code)
    subprocess.run(["cc", "-D_GNU_SOURCE", "-shared", "-fPIC", "-o", library, source, "-ldl"], check=True)
    return {"LD_PRELOAD": library}


class OpenError(Exception):
    """The sink did not open; the text is what a user would read."""


class Drive:
    """A running sink-drive. Verdicts come in the order in which the sink gave them. With a prefix (strace) it is alone: what a
    second watcher does would be seen too."""

    def __init__(self, kind, options=None, deadline=10, env=None, prefix=()):
        self.deadline = deadline * PATIENCE
        self.process = subprocess.Popen([*prefix, *command(kind, options, deadline, not prefix)], stdin=subprocess.PIPE,
                                        stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
                                        env={**os.environ, **(env or {})})
        self.log = []
        self._lines = queue.Queue()
        self._threads = [threading.Thread(target=read, daemon=True) for read in (self._read, self._read_log)]
        for thread in self._threads:
            thread.start()
        first = self._next()
        if "opened" not in first:
            self.process.stdin.close()
            self._reap()
            raise OpenError("%s: %s" % (first.get("error"), first.get("text")))

    def _read(self):
        for line in self.process.stdout:
            self._lines.put(json.loads(line))
        self._lines.put(None)

    def _read_log(self):
        for line in self.process.stderr:
            self.log.append(line.rstrip("\n"))

    def _next(self):
        line = self._lines.get(timeout=self.deadline + 10)
        if line is None:
            raise AssertionError("sink-drive ended: %s" % self.log)
        return line

    def _reap(self):
        status = self.process.wait(timeout=self.deadline + 20)
        for thread in self._threads:
            thread.join()
        return status

    def send(self, *lines):
        """Messages or commands, as sink-drive reads them."""
        self.process.stdin.write("".join(json.dumps(line) + "\n" for line in lines))
        self.process.stdin.flush()

    def verdict(self):
        """The next verdict."""
        return self._next()

    def verdicts(self, count):
        """The next verdicts, by handle."""
        return {verdict["handle"]: verdict for verdict in (self._next() for _ in range(count))}

    def relay(self, messages, most=16):
        """Hands them over as a relay does, with so many out at a time; the outcomes that came."""
        outcomes, rest = set(), iter(messages[most:])
        self.send({"batch": messages[:most]})
        for _ in messages:
            outcomes.add(self._next()["outcome"])
            for message in itertools.islice(rest, 1):
                self.send(message)
        return outcomes

    def finish(self):
        """Ends the script; (exit status, the verdicts that came since)."""
        self.process.stdin.close()
        status = self._reap()
        rest = []
        while (line := self._lines.get()) is not None:
            rest.append(line)
        self._lines.put(None)
        return status, rest

    def __enter__(self):
        return self

    def __exit__(self, kind, *_):
        if self.process.poll() is None:
            if kind:
                self.process.kill()
            else:
                self.process.stdin.close()
            self._reap()
        self.process.stdin.close()
        if not kind:
            assert self.process.returncode in (0, 3), self.log


def shortage(kind, options, message):
    """The verdict of a message to nobody when the sink's process has no descriptor left for a connection."""
    for limit in range(40, 8, -1):
        try:
            with Drive(kind, options, prefix=["prlimit", "--nofile=%d" % limit]) as sink:
                sink.send(message)
                verdict = sink.verdict()
        except (OpenError, AssertionError):
            break
        if verdict["outcome"] != "retry":
            assert (verdict["outcome"], verdict["unreachable"]) == ("not_sent", False)
            assert verdict["not_before_ms"] > 0
            return verdict
    raise AssertionError("the limit was never met")


def drive(kind, options, script, deadline=10, env=None, statuses=(0,)):
    """Runs a script to its end; the verdicts in the order in which they came."""
    with Drive(kind, options, deadline, env) as sink:
        sink.send(*script)
        status, verdicts = sink.finish()
        assert status in statuses, (status, verdicts, sink.log)
        return verdicts
