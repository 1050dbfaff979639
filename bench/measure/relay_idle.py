"""What a relay costs that has nothing to do."""
import re
import time

from harness.relay import Relay, cpu_of

NAME = "relay-idle"
TITLE = "a relay with nothing to do: processor time, and what it asks of the server"
CPU_BAR = 0.5      # percent of a core
POLL = 0.5         # seconds between fallback looks, as configured unless told otherwise
HOUSEKEEPING = 22  # statements a minute: a sign of life every 10 s, counts every 15 s, what operators want every 5 s
ENTRY = re.compile(r"^\d{4}-\d\d-\d\d [\d:.]+ \w+ \[\d+\] bench@(\w+) LOG:  (?:execute [^:]*|statement): "
                   r"(.*?)(?=^\d{4}-|\Z)", re.M | re.S)


def said(bench, database, offset):
    """The statements of the relay since then, from the server's log."""
    with open(bench.server.log, "rb") as file:
        file.seek(offset)
        text = file.read().decode(errors="replace")
    return [words for name, words in ENTRY.findall(text) if name == database]


def one(bench, report, seconds):
    with bench.fresh() as database:
        bench.admin.execute("alter role bench in database %s set log_statement = 'all'" % database)
        with Relay(bench, database, {"out": {"kind": "null"}}) as relay:
            time.sleep(3)  # connections, plans, the first purge
            with open(bench.server.log, "rb") as file:
                offset = file.seek(0, 2)
            before = cpu_of(relay.process.pid), relay.backend_seconds, time.monotonic()
            time.sleep(seconds)
            took = time.monotonic() - before[2]
            cpu, backends = cpu_of(relay.process.pid) - before[0], relay.backend_seconds - before[1]
            asked = said(bench, database, offset)
    claims = sum(".claim(" in words for words in asked)
    report.sample("idle", cpu_percent=cpu / took * 100, backend_percent=backends / took * 100,
                  statements=len(asked) / took, claims=claims / took, others=[words[:60] for words in asked
                                                                            if ".claim(" not in words],
                  seconds=took, peak_mb=relay.peak_kb / 1024)


def measure(bench, report):
    seconds = bench.size(20, 6)
    for _ in range(bench.times(3)):
        one(bench, report, seconds)
    report.table(["", "median"], [[label, report.median("idle", field)] for label, field in (
        ("relay, % of a core", "cpu_percent"), ("its backends, % of a core", "backend_percent"),
        ("statements a second", "statements"), ("of them claims", "claims"), ("peak MB", "peak_mb"))])
    report.check("relay when idle, % of a core", report.median("idle", "cpu_percent"), CPU_BAR, at_most=True)
    report.check("statements a second when idle", report.median("idle", "statements"), 1 / POLL + HOUSEKEEPING / 60,
                 at_most=True)
