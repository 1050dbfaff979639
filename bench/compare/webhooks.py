"""What the worker process pays for real deliveries: webhooks to nginx on loopback, and beside it nothing but the requests."""
import json
import os
import subprocess
import tempfile

from compare.drain import drain, without_start
from compare.system import System
from compare.worker import Failed
from tests.support.nginx import PROGRAM, Nginx

NAME, TITLE = "webhooks", "webhooks to nginx on loopback: what the worker process pays"
CONNECTIONS = 64
QUIET = "access_log off; keepalive_requests 1000000; location / { return 204; }"


class Bare(System):
    name = family = "bare"
    label, set_up, keeps = "requests only, libcurl", "a loop without a database, 64 connections", "nothing"


def bare(lab, url, count):
    line = [os.path.join(lab.options.build, "bench/http_bare"), url, str(count), str(CONNECTIONS), "200"]
    got = json.loads(subprocess.run(line, stdout=subprocess.PIPE, check=True, text=True).stdout)
    return {"count": count, "rate": got["per_second"], "worker_us": got["cpu_seconds"] / count * 1e6}


def one(lab, system, count, url):
    with lab.fresh(system, lab.filled(system, count)) as place:
        values = drain(lab, system, place, count, worker=system.webhooks(lab, place, count, url, CONNECTIONS))
    return without_start(lab, system, values) if system.ours else values


def bars(lab, systems, turn):
    """No bar is about them."""


def rest(lab, systems, turn):
    if not PROGRAM:
        raise Failed("nginx is not installed: tools/deps bench")
    count = lab.options.messages or (500 if lab.quick else 20000)
    lab.results["sizes"] = {"messages": count, "connections": CONNECTIONS}
    chosen = [system for system in systems if system.ours or getattr(system, "posts", False)]
    with tempfile.TemporaryDirectory(prefix="outbox-bench-") as folder, Nginx(folder, QUIET) as nginx:
        url = nginx.url("/hook")
        lab.take(Bare(), "%d" % count, lambda: bare(lab, url, count))
        for system in chosen:
            size = system.size(count, 1 if lab.quick else 8)
            lab.take(system, "%d" % size, lambda: one(lab, system, size, url))
