"""The relay's HTTP: metrics as Prometheus reads them, health as a supervisor asks for it. A host program stands in for the
relay; the requests are real.

Proves: S15 Y6.
"""
import concurrent.futures
import http.client
import json
import os
import re
import select
import socket
import subprocess
import threading
import time

import pytest
from prometheus_client.parser import text_string_to_metric_families

from support import database

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
HOST = os.path.join(database.BUILD, "tests", "system", "admin_host")


class Host:
    def __init__(self, listen="127.0.0.1:0", stall_ms=60000):
        self.process = subprocess.Popen([HOST, listen, str(stall_ms)], stdin=subprocess.PIPE, stdout=subprocess.PIPE,
                                        text=True)
        self.said = self.process.stdout.readline().split(" ", 1)
        self.port = int(self.said[1]) if self.said[0] == "port" else None

    def tell(self, line):
        self.process.stdin.write(line + "\n")
        self.process.stdin.flush()
        assert self.process.stdout.readline() == "ok\n"

    def ask(self, path, method="GET", body=None):
        connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=10)
        try:
            connection.request(method, path, body=body)
            answer = connection.getresponse()
            return answer, answer.read().decode()
        finally:
            connection.close()

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.process.stdin.close()
        self.process.stdout.close()
        assert self.process.wait(timeout=10) == 0


@pytest.fixture
def host():
    with Host() as host:
        yield host


def strict(text):
    """Every line is what the text format allows, and each metric stands together, after its HELP and TYPE."""
    sample = re.compile(r'^([a-z_:][a-z0-9_:]*)(\{[a-z_]+="(?:[^"\\\n]|\\["\\n])*"(?:,[a-z_]+="(?:[^"\\\n]|\\["\\n])*")*\})?'
                        r' (-?[0-9.]+(?:e[+-]?[0-9]+)?)$')
    assert text.endswith("\n")
    seen, current, samples = set(), None, set()
    for line in text.splitlines():
        if line.startswith("# HELP "):
            current = line.split(" ")[2]
            assert current not in seen, "twice: " + current
            seen.add(current)
        elif line.startswith("# TYPE "):
            assert line.split(" ")[2] == current
        else:
            match = sample.match(line)
            assert match, line
            assert match.group(1) in (current, current + "_bucket", current + "_sum", current + "_count"), line
            assert match.group(0).rsplit(" ", 1)[0] not in samples, "twice: " + line
            samples.add(match.group(0).rsplit(" ", 1)[0])
    return seen


def test_metrics(host):
    """S15 Y6: the page is in the text format; names have the prefix, base units and _total."""
    for line in ["count 7", "gauges 12", "observe 2500", "observe 90000000"]:
        host.tell(line)
    answer, text = host.ask("/metrics")
    assert answer.status == 200 and answer.headers["Content-Type"] == "text/plain; version=0.0.4; charset=utf-8"
    names = strict(text)
    families = {family.name: family for family in text_string_to_metric_families(text)}
    for name in names:
        family = families[re.sub("_total$", "", name)]
        assert name.startswith(("outbox_", "process_")), name
        assert (family.type == "counter") == name.endswith("_total"), name
        assert not re.search("_(ms|us|milliseconds|minutes|kb|mb)$", name), name
        assert family.documentation.endswith("."), name
    labels = {label for family in families.values() for sample in family.samples for label in sample.labels}
    assert labels <= {"version", "store", "sink", "namespace", "outcome", "state", "result", "le"}
    value = {(sample.name, tuple(sorted(sample.labels.items()))): sample.value
             for family in families.values() for sample in family.samples}
    assert value["outbox_claimed_total", (("store", "shop"),)] == 7
    assert value["outbox_pending", (("store", "shop"),)] == 12
    assert value["outbox_oldest_due_age_seconds", (("store", "shop"),)] == 0.25
    billing = (("sink", 'bill"ing'), ("store", "shop"))
    assert value["outbox_delivery_seconds_count", billing] == 2
    assert value["outbox_delivery_seconds_sum", billing] == 90.0025
    assert value["process_resident_memory_bytes", ()] > 1000000
    assert 0 <= value["process_cpu_seconds_total", ()] < 60
    assert abs(value["process_start_time_seconds", ()] - time.time()) < 60


def test_every_metric_is_documented(host):
    """S15 Y6: docs/metrics.md names what the page has, and nothing else."""
    with open(os.path.join(ROOT, "docs", "metrics.md"), encoding="utf-8") as file:
        documented = set(re.findall(r"^\| `((?:outbox|process)_\w+)` \| (?:counter|gauge|histogram) ", file.read(), re.M))
    assert documented == strict(host.ask("/metrics")[1])


def test_live():
    """S15: live while the loop turns; 503 once it is stuck, and live again when it is not."""
    with Host(stall_ms=300) as host:
        host.tell("tick")
        assert host.ask("/live")[0].status == 200
        end = time.monotonic() + 10
        while host.ask("/live")[0].status == 200:
            assert time.monotonic() < end, "still live"
            time.sleep(0.02)
        answer, text = host.ask("/live")
        assert answer.status == 503 and json.loads(text)["live"] is False and json.loads(text)["loop_turned_s_ago"] >= 0.3
        assert host.ask("/ready")[0].status == 503
        host.tell("tick")
        assert host.ask("/live")[0].status == 200


def test_ready(host):
    """S15: ready when every store is, and while it runs; otherwise it says which is not, and why."""
    assert host.ask("/ready")[0].status == 503  # it has not started
    host.tell("phase 1")
    assert host.ask("/ready")[0].status == 503  # no store has answered yet
    host.tell("store a ready")
    host.tell('store b cannot connect to "b": refused')
    answer, text = host.ask("/ready")
    assert answer.status == 503 and answer.headers["Content-Type"] == "application/json"
    assert json.loads(text) == {"ready": False, "phase": "running", "live": True, "stores": [
        {"name": "a", "ready": True, "reason": None},
        {"name": "b", "ready": False, "reason": 'cannot connect to "b": refused'}]}
    host.tell("store b ready")
    answer, text = host.ask("/ready")
    assert answer.status == 200 and json.loads(text)["ready"] is True
    host.tell("phase 2")
    assert json.loads(host.ask("/ready")[1])["phase"] == "stopping" and host.ask("/ready")[0].status == 503


@pytest.mark.parametrize("method, path, status", [
    ("GET", "/", 404), ("GET", "/metrics/", 404), ("GET", "/../etc/passwd", 404), ("GET", "/Metrics", 404),
    ("POST", "/metrics", 405), ("DELETE", "/ready", 405), ("PUT", "/live", 405), ("OPTIONS", "/live", 405),
    ("POST", "/nothing", 404)])
def test_what_is_not_there(host, method, path, status):
    """S15: 404 and 405 are JSON; a path that is there names its methods."""
    answer, text = host.ask(path, method, body="x" * 100 if method in ("POST", "PUT") else None)
    assert answer.status == status and json.loads(text)["detail"]
    assert answer.headers.get("Allow") == ("GET, HEAD" if status == 405 else None)


def test_head_and_query(host):
    """S15: HEAD has the headers without the body; a query changes nothing."""
    answer, text = host.ask("/metrics", "HEAD")
    assert (answer.status, text) == (200, "") and int(answer.headers["Content-Length"]) > 1000
    assert host.ask("/live?verbose=1")[0].status == 200


def test_bad_requests(host):
    """S15: what is no HTTP, or too much of it, costs a connection and nothing else."""
    for junk in [b"\x00\xff\r\n\r\n", b"GET\r\n\r\n", b"GET /metrics HTTP/1.1\r\nX: " + b"a" * 100000 + b"\r\n\r\n",
                 b"GET /" + b"a" * 100000 + b" HTTP/1.1\r\n\r\n"]:
        with socket.create_connection(("127.0.0.1", host.port), timeout=10) as sock:
            try:
                sock.sendall(junk)
                sock.shutdown(socket.SHUT_WR)
                while sock.recv(4096):
                    pass
            except OSError:
                pass  # it was closed on us, which is the point
    assert host.ask("/live")[0].status == 200


def test_many_at_once(host):
    """S15: more idle connections than it takes, and scrapes beside them: bounded, and alive when they go."""
    idle = []
    for _ in range(60):
        idle.append(socket.create_connection(("127.0.0.1", host.port), timeout=10))
    for sock in idle:
        sock.close()
    end = time.monotonic() + 10
    while True:
        try:
            assert host.ask("/live")[0].status == 200
            break
        except (OSError, http.client.HTTPException):
            assert time.monotonic() < end
            time.sleep(0.02)
    with concurrent.futures.ThreadPoolExecutor(8) as pool:
        answers = list(pool.map(lambda _: host.ask("/metrics"), range(100)))
    assert all(answer.status == 200 and text.endswith("\n") for answer, text in answers)


@pytest.mark.parametrize("listen", ["", "9464", ":9464", "127.0.0.1", "127.0.0.1:", "127.0.0.1:x", "127.0.0.1:70000",
                                    "example.com:80", "[::1:80", "127.0.0.1:80 ", "256.0.0.1:80"])
def test_bad_addresses(listen):
    """S15: what is no address and port is refused with an example."""
    with Host(listen) as host:
        assert host.said[0] == "error" and "127.0.0.1:9464" in host.said[1]


def test_address_in_use(host):
    """S15: a port that is taken is said to be."""
    with Host("127.0.0.1:%d" % host.port) as other:
        assert other.said[0] == "error" and "in use" in other.said[1]


def test_other_addresses():
    """S15: localhost, and IPv6 where the machine has it."""
    with Host("localhost:0") as host:
        assert host.ask("/live")[0].status == 200
    try:
        with socket.socket(socket.AF_INET6) as sock:
            sock.bind(("::1", 0))
    except OSError:
        return
    with Host("[::1]:0") as host:
        with socket.create_connection(("::1", host.port), timeout=10) as sock:
            sock.sendall(b"GET /live HTTP/1.0\r\n\r\n")
            assert sock.recv(4096).startswith(b"HTTP/1.")


def dripping(host, count, stop):
    """Clients that have a request, and never finish it: a byte now and then."""
    socks = []
    for _ in range(count):
        sock = socket.create_connection(("127.0.0.1", host.port), timeout=10)
        sock.sendall(b"GET /live HTTP/1.1\r\nHost: a\r\nX-Drip: ")
        socks.append(sock)

    def drip():
        while not stop.wait(0.3):
            for sock in socks:
                try:
                    sock.sendall(b"x")
                except OSError:
                    pass
    thread = threading.Thread(target=drip)
    thread.start()
    return socks, thread


@pytest.mark.parametrize("count", [40, 300])
def test_clients_that_drip_keep_nobody_out(host, count):
    """S15 Y6: from the very address that the probe comes from; every probe is answered at once."""
    stop = threading.Event()
    socks, thread = dripping(host, count, stop)
    try:
        for _ in range(8):
            began = time.monotonic()
            assert host.ask("/live")[0].status == 200
            assert host.ask("/metrics")[0].status == 200
            assert time.monotonic() - began < 8
            time.sleep(0.1)
    finally:
        stop.set()
        thread.join()
        for sock in socks:
            sock.close()
    assert host.ask("/ready")[0].status == 503


def test_a_request_has_so_much_time(host):
    """S15: as a whole, not from byte to byte."""
    stop = threading.Event()
    socks, thread = dripping(host, 3, stop)
    try:
        began, open_ = time.monotonic(), set(socks)
        while open_ and time.monotonic() < began + 25:
            open_ -= set(select.select(list(open_), [], [], 0.5)[0])
        assert not open_ and time.monotonic() - began > 8
    finally:
        stop.set()
        thread.join()
        for sock in socks:
            sock.close()
