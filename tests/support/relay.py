"""A real relay under test: writes its configuration, starts `outbox run`, reads its log, ends it in any way.

    relay = Relay(tmp_path, url, sinks={"out": {"kind": "stub", "ledger": ledger}}, routes=[{"sink": "out"}])
    with relay.running():
        wait_for(lambda: relay.logged("relay started"))
"""
import contextlib
import json
import os
import pathlib
import signal
import subprocess
import time
import urllib.request

from support.database import CLI
from support.pgserver import free_port
from support.under import PATIENCE, watched


def wait_for(condition, timeout=20, what="the condition"):
    """Polls until condition() is truthy, and returns it."""
    timeout *= PATIENCE
    end = time.monotonic() + timeout
    while True:
        value = condition()
        if value:
            return value
        if time.monotonic() > end:
            raise AssertionError("%s did not come about within %s s" % (what() if callable(what) else what, timeout))
        time.sleep(0.01)


class Relay:
    def __init__(self, directory, store, sinks, routes, name="relay", relay=None, log=None, admin=False, env=None,
                 **sections):
        self.directory = pathlib.Path(directory)
        self.name, self.env = name, env or {}
        self.config = {"sinks": sinks, "routes": routes, **sections}
        if isinstance(store, dict):
            self.config["stores"] = store
        else:
            self.config["store"] = store
        self.config["relay"] = {"poll": "200ms", "control_every": "1s", **(relay or {})}
        self.config["log"] = {"level": "debug", **(log or {})}
        self.port = free_port() if admin else None
        if admin:
            self.config["admin"] = {"listen": "127.0.0.1:%d" % self.port}
        self.path = self.directory / (name + ".yaml")
        self.log_path = self.directory / (name + ".log")
        self.process = None
        self.write()

    def write(self):
        """JSON is YAML."""
        self.path.write_text(json.dumps(self.config, indent=1))

    def start(self, *args, **env):
        with open(self.log_path, "ab") as log:
            self.process = subprocess.Popen(watched(CLI, "run", "--config", str(self.path), *args), stderr=log,
                                            stdout=subprocess.DEVNULL, env={**os.environ, **self.env, **env})
        return self

    def log(self):
        return self.log_path.read_text() if self.log_path.exists() else ""

    def logged(self, text):
        return text in self.log()

    def started(self):
        """It heeds signals from here on."""
        return any('msg="relay started"' in line and "-%d-" % self.process.pid in line for line in self.log().splitlines())

    def metric(self, name):
        """The sum over the samples that begin so: "outbox_up", 'outbox_attempts_total{store="a"'."""
        with urllib.request.urlopen("http://127.0.0.1:%d/metrics" % self.port, timeout=5) as answer:
            lines = answer.read().decode().splitlines()
        values = [float(line.rsplit(" ", 1)[1]) for line in lines
                  if line.startswith(name) and line[len(name)] in "{ ,}"]
        return sum(values) if values else None

    def rss_kib(self):
        with open("/proc/%d/status" % self.process.pid) as file:
            return next(int(line.split()[1]) for line in file if line.startswith("VmRSS"))

    def signal(self, number):
        self.process.send_signal(number)

    def wait(self, timeout=30):
        return self.process.wait(timeout * PATIENCE)

    def stop(self, timeout=30):
        """As an operator does; a relay that ends in another way is a defect."""
        self.process.terminate()
        status = self.process.wait(timeout * PATIENCE)
        assert status == 0, "the relay ended with %s:\n%s" % (status, self.log()[-3000:])

    def kill(self):
        if self.process and self.process.poll() is None:
            self.process.send_signal(signal.SIGCONT)
            self.process.kill()
            self.process.wait()

    def until_empty(self, timeout=60, **env):
        self.start("--until-empty", **env)
        try:
            status = self.process.wait(timeout * PATIENCE)
        finally:
            self.kill()
        assert status == 0, "the relay ended with %s:\n%s" % (status, self.log()[-3000:])

    @contextlib.contextmanager
    def running(self, *args, **env):
        self.start(*args, **env)
        try:
            yield self
            self.stop()
        finally:
            self.kill()


def read_ledger(path):
    """What a stub sink accepted, in the order it did: one dict a line. The last line may be half written."""
    path = pathlib.Path(path)
    if not path.exists():
        return []
    return [json.loads(line) for line in path.read_text().split("\n")[:-1]]
