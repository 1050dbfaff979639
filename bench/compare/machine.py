"""Processor time: of the server, of a worker, and of everybody else.

What others used is the machine's busy time without that of our own processes. A sample during which they used more than
a fifth of the cores says more about them than about what is measured.
"""
import collections
import os
import time

TICK = os.sysconf("SC_CLK_TCK")
NOISE_LIMIT = 0.2  # of all cores, used by others
WAIT_SECONDS = 20  # for a quiet machine, before each sample

Stat = collections.namedtuple("Stat", "parent own reaped")


def _stat(pid):
    """Parent, processor seconds of a process, and those of its children that are gone; None when it is gone itself."""
    try:
        with open("/proc/%d/stat" % pid) as file:
            fields = file.read().rsplit(")", 1)[1].split()
    except (OSError, IndexError):
        return None
    return Stat(int(fields[1]), (int(fields[11]) + int(fields[12])) / TICK, (int(fields[13]) + int(fields[14])) / TICK)


def _processes():
    found = {}
    for name in os.listdir("/proc"):
        stat = _stat(int(name)) if name.isdigit() else None
        if stat:
            found[int(name)] = stat
    return found


def tree_cpu(root):
    """Processor seconds of a process and all that it started, also of those that have ended since."""
    found = _processes()
    children = collections.defaultdict(list)
    for pid, stat in found.items():
        children[stat.parent].append(pid)
    total, waiting = 0.0, [root]
    while waiting:
        pid = waiting.pop()
        if pid in found:
            total += found[pid].own + found[pid].reaped
            waiting += children[pid]
    return total


def _scheduled(pid):
    """Processor seconds of a process of one thread, to the microsecond; None when it is gone."""
    try:
        with open("/proc/%d/schedstat" % pid) as file:
            return int(file.read().split()[0]) / 1e9
    except (OSError, ValueError, IndexError):
        return None


def server_cpu(postmaster):
    """Processor seconds of all processes of a PostgreSQL server. Those that live are counted by the scheduler, to the
    microsecond. One that ends while we look would be missing here and there: then we look again."""
    while True:
        reaped = _stat(postmaster).reaped
        living = [_scheduled(pid) for pid, stat in _processes().items() if stat.parent == postmaster]
        if None not in living and _stat(postmaster).reaped == reaped:
            return reaped + sum(living)


def peak_mb(pid):
    """The largest resident size so far; None when the process is gone."""
    try:
        with open("/proc/%d/status" % pid) as file:
            for line in file:
                if line.startswith("VmHWM"):
                    return int(line.split()[1]) / 1024
    except OSError:
        pass
    return None


def _busy():
    """Processor seconds that somebody used, all cores; stolen ones too."""
    with open("/proc/stat") as file:
        fields = [int(word) for word in file.readline().split()[1:9]]
    user, nice, system, _idle, _wait, irq, softirq, steal = fields
    return (user + nice + system + irq + softirq + steal) / TICK


class Noise:
    """with Noise() as noise: ...; noise.share is the part of all cores that others used meanwhile."""

    def __enter__(self):
        self.start = time.monotonic(), _busy(), tree_cpu(os.getpid())
        return self

    def __exit__(self, *_):
        seconds = max(time.monotonic() - self.start[0], 0.001)
        others = _busy() - self.start[1] - (tree_cpu(os.getpid()) - self.start[2])
        self.share = round(max(0.0, others / seconds / os.cpu_count()), 3)


def wait_until_quiet(patience=WAIT_SECONDS):
    """Returns the share that others use now: below the limit, unless patience ran out."""
    end = time.monotonic() + patience
    while True:
        with Noise() as noise:
            time.sleep(0.1 if patience else 0.05)
        if noise.share <= NOISE_LIMIT or time.monotonic() >= end:
            return noise.share
        time.sleep(1)
