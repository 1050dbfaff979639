"""A backlog delivered to nginx over loopback HTTP, beside a bare libcurl loop that sends the same requests."""
import json
import os
import subprocess
import tempfile

from harness import fill
from harness.relay import Relay
from tests.support.nginx import PROGRAM, Nginx

NAME = "relay-http"
TITLE = "webhooks to nginx on loopback, beside a bare libcurl-multi loop with as many connections"
BAR = 0.5
CONNECTIONS = [16, 64]
QUIET = "access_log off; location / { return 204; }"


def bare(bench, report, url, count, connections):
    line = [os.path.join(bench.build, "bench/http_bare"), url, str(count), str(connections), "200"]
    got = json.loads(subprocess.run(line, stdout=subprocess.PIPE, check=True, text=True).stdout)
    report.sample("bare, %d" % connections, rate=got["per_second"], relay_us=got["cpu_seconds"] / count * 1e6)


def relayed(bench, report, url, count, connections):
    with bench.fresh() as database:
        fill.ours(bench, database, count)
        bench.settle_down(database)
        sink = {"kind": "http", "url": url, "allow": "127.0.0.0/8", "concurrency": connections, "batch": connections}
        with Relay(bench, database, {"hook": sink}, until_empty=True) as relay:
            relay.wait()
        relay.check_delivered(count)
    report.sample("relay, %d" % connections, rate=count / relay.seconds, seconds=relay.seconds,
                  relay_us=relay.cpu_seconds / count * 1e6, cpu_us=relay.backend_seconds / count * 1e6,
                  peak_mb=relay.peak_kb / 1024)


def measure(bench, report):
    if not PROGRAM:
        raise RuntimeError("nginx is not installed: tools/deps bench")
    count = bench.size(60000, 5000)
    with tempfile.TemporaryDirectory(prefix="outbox-bench-") as folder, Nginx(folder, QUIET) as nginx:
        for _ in range(bench.times(3)):
            for connections in CONNECTIONS:
                bare(bench, report, nginx.url("/hook"), count, connections)
                relayed(bench, report, nginx.url("/hook"), count, connections)
    rows = []
    for connections in CONNECTIONS:
        for side in ("bare", "relay"):
            label = "%s, %d" % (side, connections)
            rows.append([label, report.median(label, "rate"), report.median(label, "relay_us"),
                         report.median(label, "cpu_us") if side == "relay" else None])
    print("  %d messages of 200 bytes; CPU in us per message" % count)
    report.table(["", "msg/s", "own CPU", "backend CPU"], rows)
    for connections in CONNECTIONS:
        ours, floor = "relay, %d" % connections, "bare, %d" % connections
        report.check("relay / bare, %d connections" % connections,
                     report.median(ours, "rate") / report.median(floor, "rate"), BAR,
                     cpu=report.median(floor, "relay_us") / report.median(ours, "relay_us"))
