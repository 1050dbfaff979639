"""A worker that is measured: any program that speaks the protocol of bench/peers/README.md, or `outbox run`.

    worker.start(); worker.ready(); worker.go(); worker.done(); worker.stop()

cpu() is the processor time of the process and its helpers so far, peak() its largest memory in MB."""
import os
import select
import signal
import subprocess
import tempfile
import time

from compare import machine

READY_SECONDS = 60


class Failed(RuntimeError):
    """A worker that did not do its work."""


class Worker:
    """command: the program; helpers: commands of processes that belong to it, such as a ticker."""

    def __init__(self, command, env, folder=None, helpers=()):
        self.command, self.env, self.folder = command, {**os.environ, **env}, folder
        self.helper_commands, self.helpers = helpers, []
        self.process = None
        self.last_cpu = self.last_peak = 0.0
        self.errors = tempfile.TemporaryFile()

    def _spawn(self, command, **streams):
        return subprocess.Popen(command, cwd=self.folder, env=self.env, stderr=self.errors, **streams)

    def start(self):
        self.helpers = [self._spawn(command, stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL)
                        for command in self.helper_commands]
        self.process = self._spawn(self.command, stdin=subprocess.PIPE, stdout=subprocess.PIPE)
        self.text = b""

    def ready(self):
        self._line("ready", READY_SECONDS)

    def go(self):
        self._tell("go\n")

    def done(self, timeout):
        """Until everything is handled and settled; how many it says it handled."""
        return int(self._line("done", timeout).split()[1])

    def finish(self, timeout=60):
        """Ends a worker that runs until it is told to stop; how many it handled."""
        self.look()
        self.process.stdin.close()
        count = int(self._line("done", timeout).split()[1])
        self.process.wait(timeout)
        return count

    def stop(self):
        """Whatever state it is in. Never raises."""
        self.look()
        for process in [self.process] + self.helpers:
            if process and process.poll() is None:
                process.send_signal(signal.SIGTERM)
                try:
                    process.wait(5)
                except subprocess.TimeoutExpired:
                    process.kill()
                    process.wait()
        for stream in (self.process and self.process.stdin, self.process and self.process.stdout, self.errors):
            if stream:
                try:
                    stream.close()
                except OSError:
                    pass

    def look(self):
        for process in [self.process] if self.process and self.process.poll() is None else []:
            self.last_cpu = sum(machine.tree_cpu(one.pid) for one in [process] + self.helpers)
            self.last_peak = machine.peak_mb(process.pid) or self.last_peak

    def cpu(self):
        self.look()
        return self.last_cpu

    def peak(self):
        self.look()
        return self.last_peak

    def _tell(self, text):
        try:
            self.process.stdin.write(text.encode())
            self.process.stdin.flush()
        except OSError:
            raise Failed(self.why("does not listen"))

    def _line(self, word, timeout):
        """The line that begins with the word; others are passed over."""
        end = time.monotonic() + timeout
        stream = self.process.stdout
        while True:
            while b"\n" in self.text:
                line, self.text = self.text.split(b"\n", 1)
                if line.split(b" ")[0] == word.encode():
                    return line.decode()
            if not select.select([stream], [], [], max(0, end - time.monotonic()))[0]:
                raise Failed(self.why("did not say %r within %d s" % (word, timeout)))
            data = os.read(stream.fileno(), 65536)
            if not data:
                self.process.wait()
                raise Failed(self.why("ended with %s before it said %r" % (self.process.returncode, word)))
            self.text += data

    def why(self, what):
        self.errors.seek(0)
        text = self.errors.read().decode(errors="replace").strip()
        return "%s %s%s" % (os.path.basename(self.command[0]), what, ": " + text[-1500:] if text else "")


class Relay(Worker):
    """`outbox run`: it knows no protocol. A drain is a relay that ends when nothing is left, start included; otherwise it
    runs until it is terminated. copies: so many relays at once."""

    def __init__(self, command, env, drain, count=0, copies=1):
        super().__init__(command, env)
        self.drain, self.count, self.copies = drain, count, copies

    def start(self):
        if not self.drain:
            self._run()

    def _run(self):
        """The first is the process that is watched, the others are its helpers."""
        self.process, *self.helpers = [self._spawn(self.command, stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL)
                                       for _ in range(self.copies)]

    def ready(self):
        if not self.drain:
            time.sleep(0.7)  # connected and listening
            if self.process.poll() is not None:
                raise Failed(self.why("ended with %s" % self.process.returncode))

    def go(self):
        if self.drain:
            self._run()

    def _reap(self, timeout):
        """The kernel's own count of what the processes used, which is exact when they are gone."""
        end, used_by = time.monotonic() + timeout, {}
        alive = [self.process] + self.helpers
        while alive:
            for process in list(alive):
                pid, status, used = os.wait4(process.pid, os.WNOHANG)
                if pid:
                    process.returncode = os.waitstatus_to_exitcode(status)
                    used_by[pid] = used.ru_utime + used.ru_stime
                    alive.remove(process)
            if time.monotonic() > end:
                raise Failed(self.why("did not end within %d s" % timeout))
            self.last_peak = machine.peak_mb(self.process.pid) or self.last_peak  # maxrss would count what forked it
            time.sleep(0.002)
        self.last_cpu = sum(used_by.values())
        for process in [self.process] + self.helpers:
            if process.returncode != 0:
                raise Failed(self.why("ended with %s" % process.returncode))

    def done(self, timeout):
        self._reap(timeout)
        return self.count

    def finish(self, timeout=60):
        for process in [self.process] + self.helpers:
            process.send_signal(signal.SIGTERM)
        self._reap(timeout)
