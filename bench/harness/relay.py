"""A relay that is measured: `outbox run` on a database of the bench, its processor time and its memory.

    with Relay(bench, database, sinks={"out": {"kind": "null"}}) as relay:
        relay.wait()
    relay.seconds, relay.cpu_seconds, relay.backend_seconds, relay.peak_kb
"""
import json
import os
import re
import subprocess
import tempfile
import threading
import time
import urllib.request

from harness.server import DELIVERED
from tests.support.pgserver import free_port

LOOK = 0.05  # between two looks at /proc


def cpu_of(pid):
    """Processor seconds of all threads of a process, by the scheduler's own count; None when it is gone."""
    total = 0
    try:
        for thread in os.listdir("/proc/%d/task" % pid):
            with open("/proc/%d/task/%s/schedstat" % (pid, thread)) as file:
                total += int(file.read().split()[0])
    except (OSError, ValueError, IndexError):
        return None
    return total / 1e9


def memory_of(pid):
    """(resident now, its peak) in KiB; None when it is gone."""
    found = {}
    try:
        with open("/proc/%d/status" % pid) as file:
            for line in file:
                name, _, value = line.partition(":")
                if name in ("VmRSS", "VmHWM"):
                    found[name] = int(value.split()[0])
    except OSError:
        return None
    return (found["VmRSS"], found["VmHWM"]) if len(found) == 2 else None


def wait_for(condition, timeout, what, every=0.005):
    end = time.monotonic() + timeout
    while True:
        value = condition()
        if value:
            return value
        if time.monotonic() > end:
            raise RuntimeError("%s did not come about within %s s" % (what, timeout))
        time.sleep(every)


class Relay:
    """Sinks and routes as in a configuration file. Without routes everything goes to the first sink."""

    def __init__(self, bench, database, sinks, routes=None, relay=None, until_empty=False, log="warn",
                 admin=False, args=(), stdout=subprocess.DEVNULL):
        self.bench, self.database, self.stdout = bench, database, stdout
        url = "postgresql://bench@/%s?host=%s&port=%d" % (database, bench.server.folder, bench.server.port)
        self.config = {"store": url, "sinks": sinks, "routes": routes or [{"sink": next(iter(sinks))}],
                       "log": {"level": log}}
        if relay:
            self.config["relay"] = relay
        self.port = free_port() if admin else None
        if admin:
            self.config["admin"] = {"listen": "127.0.0.1:%d" % self.port}
        self.args = (["--until-empty"] if until_empty else []) + list(args)
        self.process = self.watcher = None
        self.backends = {}  # pid: (application, processor seconds)
        self.cpu_seconds = self.peak_kb = self.resident_kb = self.seconds = 0

    # ---- life ------------------------------------------------------------------------------------------------------

    def __enter__(self):
        self.folder = tempfile.TemporaryDirectory(prefix="outbox-bench-")
        path = os.path.join(self.folder.name, "outbox.yaml")
        with open(path, "w") as file:
            json.dump(self.config, file)  # JSON is YAML
        self.log_path = os.path.join(self.folder.name, "log")
        self.over = threading.Event()
        self.started = time.monotonic()
        with open(self.log_path, "wb") as log:
            self.process = subprocess.Popen(
                [os.path.join(self.bench.build, "src/cli/outbox"), "run", "--config", path, *self.args],
                stdout=self.stdout, stderr=log)
        self.watcher = threading.Thread(target=self._watch, daemon=True)
        self.watcher.start()
        return self

    def __exit__(self, kind, *_):
        try:
            if self.process.poll() is None:
                self.process.terminate()
                self.process.wait(30)
        finally:
            if self.process.poll() is None:
                self.process.kill()
                self.process.wait()
            self.over.set()
            self.watcher.join()
            failed = self.process.returncode != 0 and kind is None
            text = self.log()
            self.folder.cleanup()
        if failed:
            raise RuntimeError("the relay ended with %d:\n%s" % (self.process.returncode, text[-2000:]))

    def log(self):
        with open(self.log_path, errors="replace") as file:
            return file.read()

    def wait(self, timeout=900):
        """Until it ends by itself. The clock stops with the process, not with the look that notices."""
        status = self.process.wait(timeout)
        self.seconds = time.monotonic() - self.started
        if status != 0:
            raise RuntimeError("the relay ended with %d:\n%s" % (status, self.log()[-2000:]))

    def check_delivered(self, count):
        """A relay that is fast because it leaves something out has no rate."""
        with self.bench.connect(self.database, "postgres") as conn:
            done, = conn.execute(DELIVERED).fetchone()
        if done != count:
            raise RuntimeError("%d of %d were delivered" % (done, count))

    def metric(self, name, **labels):
        """The sum of a metric over all series that have these labels; 0 while nobody answers."""
        try:
            with urllib.request.urlopen("http://127.0.0.1:%d/metrics" % self.port, timeout=5) as answer:
                page = answer.read().decode()
        except OSError:
            return 0
        wanted = ['%s="%s"' % pair for pair in labels.items()]
        return sum(float(value) for found, value in re.findall(r"^%s\{?([^}\n]*)\}? (\S+)$" % name, page, re.M)
                   if all(label in found for label in wanted))

    # ---- looking ---------------------------------------------------------------------------------------------------

    def _watch(self):
        with self.bench.connect(self.database, "postgres") as conn:
            while True:
                self._look(conn)
                if self.over.wait(LOOK) or self.process.poll() is not None:
                    return

    def _look(self, conn):
        """Backends come and go: they are asked for until the relay is warm, and looked at as long as they live."""
        if time.monotonic() - self.started < 2:
            for pid, name in conn.execute("select pid, application_name from pg_stat_activity "
                                          "where datname = current_database() and application_name like 'outbox%'"):
                self.backends.setdefault(pid, (name, 0.0))
        for pid, (name, _) in list(self.backends.items()):
            used = cpu_of(pid)
            if used is not None:
                self.backends[pid] = (name, used)
        self.cpu_seconds = cpu_of(self.process.pid) or self.cpu_seconds
        memory = memory_of(self.process.pid)
        if memory:
            self.resident_kb, self.peak_kb = memory

    @property
    def backend_seconds(self):
        return sum(used for _, used in self.backends.values())
