"""What the private brokers of tests have in common: a process of their own on a free port, in a folder of their own; and
the voyage, a run of keyed messages through a real relay while the broker is restarted and killed.

    class Redis(Broker):
        def command(self): return ["redis-server", "--port", str(self.port)]

    voyage(tmp_path, {"kind": "redis", ...}, lambda: server.entries(), [server.restart, server.kill_and_start])
"""
import contextlib
import glob
import json
import os
import shutil
import signal
import socket
import subprocess
import time

from support.nginx import free_port
from support.relay import Relay, wait_for
from support.sqlite_file import Outbox
from support.under import PATIENCE


def find_program(name):
    return shutil.which(name, path=os.environ.get("PATH", "") + ":/usr/sbin:/sbin:/usr/local/sbin")


class Broker:
    """Subclasses say how it is started, and may say when it is ready."""

    start_seconds = 20

    def __init__(self, folder, **settings):
        self.folder, self.settings = str(folder), settings
        os.makedirs(self.folder, exist_ok=True)
        self.port = free_port()
        self.process = None

    def command(self):
        raise NotImplementedError

    def environment(self):
        return dict(os.environ)

    def is_ready(self):
        socket.create_connection(("127.0.0.1", self.port), timeout=1).close()
        return True

    def log(self):
        with open(self.folder + "/log", errors="replace") as file:
            return file.read()

    def start(self):
        with open(self.folder + "/log", "ab") as log:
            self.process = subprocess.Popen(self.command(), stdout=log, stderr=log, stdin=subprocess.DEVNULL,
                                            env=self.environment(), cwd=self.folder, start_new_session=True)
        end = time.monotonic() + self.start_seconds
        while True:
            try:
                if self.is_ready():
                    return self
            except OSError:
                pass
            assert self.process.poll() is None, self.log()[-3000:]
            assert time.monotonic() < end, "it does not answer:\n" + self.log()[-3000:]
            time.sleep(0.02)

    def _signal(self, number):
        try:
            os.killpg(self.process.pid, number)
        except ProcessLookupError:
            pass

    def stop(self):
        """As an operator does."""
        if self.process:
            self.process.terminate()
            try:
                self.process.wait(timeout=20)
            except subprocess.TimeoutExpired:
                self.kill()
            self._signal(signal.SIGKILL)  # its children
        self.process = None

    def kill(self):
        """kill -9, the children too."""
        if self.process:
            self._signal(signal.SIGKILL)
            self.process.wait()
        self.process = None

    def freeze(self):
        """Returns when it stands still: the signal alone comes to a busy thread only after a while."""
        self._signal(signal.SIGSTOP)
        wait_for(lambda: set(self._thread_states()) <= set("TtZX"), what="the stop of all threads")

    def _thread_states(self):
        for path in glob.glob("/proc/%d/task/*/stat" % self.process.pid):
            with contextlib.suppress(FileNotFoundError, ProcessLookupError), open(path) as file:
                yield file.read().rpartition(")")[2].split()[0]

    def thaw(self):
        self._signal(signal.SIGCONT)

    def restart(self):
        self.stop()
        self.start()

    def kill_and_start(self):
        self.kill()
        self.start()

    def __enter__(self):
        return self.start()

    def __exit__(self, *_):
        self.kill()


KEYS = 20


def enqueue(outbox, first, count, topic):
    """Messages number first, first + 1, ... over KEYS keys."""
    conn = outbox.connect()
    conn.execute("BEGIN")
    for n in range(first, first + count):
        conn.execute("INSERT INTO outbox (topic, payload, key) VALUES (?, ?, ?)",
                     (topic, json.dumps({"n": n}), "k%d" % (n % KEYS)))
    conn.execute("COMMIT")
    conn.close()


def check_arrivals(arrivals, count):
    """Nothing lost; the first arrivals of a key in order. Returns how many came more than once."""
    seen, last = set(), {}
    for n in arrivals:
        if n in seen:
            continue
        seen.add(n)
        key = n % KEYS
        assert last.get(key, -1) < n, "%d came after %d" % (n, last[key])
        last[key] = n
    assert seen == set(range(count)), "lost: %s" % sorted(set(range(count)) - seen)[:20]
    return len(arrivals) - count


def voyage(tmp_path, sink, arrivals, troubles, topic="orders", per_leg=300):
    """Sends a leg of messages, makes trouble while they are under way, and so on; then all must have arrived. The rate is
    limited, so that trouble does not come too late.

    arrivals: returns the `n` of all payloads, in the order of arrival. Returns how many came twice.
    """
    outbox = Outbox.create(tmp_path / "voyage.db")
    settings = {"retry": {"policy": "exponential", "base": "50ms", "cap": "300ms"},
                "breaker": {"failures": 5, "base": "50ms", "cap": "300ms"}, "timeout": "8s", "max_attempts": 100,
                "batch": 50, "rate": "1000/s", "burst": 50, **sink}
    relay = Relay(tmp_path, "sqlite:" + outbox.path, {"out": settings}, [{"sink": "out"}],
                  relay={"poll": "50ms", "batch": 100})
    sent = 0
    delivered = "SELECT count(*) FROM outbox_messages WHERE status = 'delivered'"
    with relay.running():
        for trouble in troubles:
            enqueue(outbox, sent, per_leg, topic)
            wait_for(lambda: outbox.value(delivered) >= sent + per_leg // 10, what="the first tenth of a leg")
            sent += per_leg
            trouble()
            enqueue(outbox, sent, per_leg // 3, topic)
            sent += per_leg // 3
        try:
            wait_for(lambda: outbox.value(delivered) >= sent, timeout=60, what="the delivery of all")
        except AssertionError:
            print(relay.log()[-4000:])
            print(outbox.sql("SELECT status, count(*), max(last_error) FROM outbox_messages GROUP BY 1"))
            raise
    troubled = outbox.value("SELECT count(*) FROM outbox_attempts WHERE outcome <> 'delivered'")
    assert troubled > 0 or PATIENCE > 1, "no trouble at all"  # a slow relay may miss it
    return check_arrivals(arrivals(), sent)
