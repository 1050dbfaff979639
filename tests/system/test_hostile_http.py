"""Receivers that flood, drip and lie, many at once, beside a healthy one: the healthy one is served as if it were alone,
memory and processor time stay small, and the relay stops when it is told to.

Proves: N5 (other sinks go on), S11 (deadlines hold while data keeps coming), T3, S10 (bounded), M12.
OUTBOX_HOSTILE_SECONDS makes it longer (make prove).
"""
import contextlib
import os
import time

import pytest

from support.hostile import HTTP1, HTTP2, Hostile
from support.receiver import Hook, certificate, status
from support.relay import Relay, wait_for
from support.sinkdrive import preload
from support.under import PATIENCE

SECONDS = max(3, float(os.environ.get("OUTBOX_HOSTILE_SECONDS", "0")))
RATE = 40  # messages a second to the healthy one
RSS_KIB = 64 * 1024
FLOOR, CEILING = 0.5, 2  # below: a busy machine is all that shows; a hostile one takes two seconds, its timeout
GRACE = 1


class Healthy(Hook):
    """Knows when each message came."""

    def __init__(self):
        self.came = {}
        super().__init__(self._note)

    def _note(self, request, sock):
        self.came[request.header("webhook-id")] = time.monotonic()
        return status(204)(request, sock)


def deliver_for(shop, healthy, seconds):
    """Sends at RATE for so long; how long each message took from its commit to the receiver."""
    committed = {}
    conn = shop.connect()
    conn.autocommit = True
    end = time.monotonic() + seconds
    while time.monotonic() < end:
        began = time.monotonic()
        committed[shop.put(conn, {"topic": "fine", "payload": "1"}).id] = time.monotonic()
        time.sleep(max(0, 1 / RATE - (time.monotonic() - began)))
    conn.close()
    wait_for(lambda: all(id in healthy.came for id in committed), 30,
             lambda: "%d of %d to the healthy one" % (sum(id in healthy.came for id in committed), len(committed)))
    return sorted(healthy.came[id] - at for id, at in committed.items())


def part(times, share):
    return times[int(len(times) * share)]


def figures_of(alone, beside):
    return "alone median %.4f, p99 %.4f s; beside %.4f, %.4f s" % (part(alone, 0.5), part(alone, 0.99), part(beside, 0.5),
                                                                  part(beside, 0.99))


def assert_served_as_alone(alone, beside):
    """Half of them as quickly, for a machine that stalls delays the others; and none as if it had waited for a hostile one."""
    assert part(beside, 0.5) <= max(3 * part(alone, 0.5), FLOOR * PATIENCE), figures_of(alone, beside)
    assert part(beside, 0.99) <= max(3 * part(alone, 0.99), CEILING * PATIENCE), figures_of(alone, beside)


def cpu_seconds(relay):
    with open("/proc/%d/stat" % relay.process.pid) as file:
        fields = file.read().rsplit(")", 1)[1].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def sink(url, **more):
    return {"kind": "http", "url": url, "allow": "127.0.0.0/8", "timeout": "2s", "concurrency": 2,
            "retry": {"base": "100ms", "cap": "500ms"}, "breaker": {"base": "200ms", "cap": "1s"}, **more}


@contextlib.contextmanager
def until_stopped(relay):
    relay.start()
    try:
        yield
    finally:
        relay.kill()


def stop_in_time(relay):
    stopping = time.monotonic()
    relay.stop(timeout=GRACE + 20)
    took = time.monotonic() - stopping
    assert took < (GRACE + 5) * PATIENCE, "it took %.1f s to stop" % took


TLS = ["endless_chunk_extension", "endless_header_line", "endless_headers", "endless_trailers", "h2_empty_data", "h2_padding",
       "h2_window_updates", "h2_priority", "h2_unknown_frames"]
CROWDS = {"http1": HTTP1, "http2": HTTP2, "tls": TLS}


@pytest.mark.parametrize("crowd", CROWDS)
def test_hostile_crowd(pg_shop, tmp_path, crowd):
    names = CROWDS[crowd]
    cert = certificate(tmp_path) if crowd == "tls" else ()
    tls = {"tls": {"ca": cert[0]}} if cert else {}
    http2 = {"version": "auto" if cert else "2"}
    with Hostile(*cert) as hostile, Healthy() as healthy:
        sinks = {name: sink(hostile.url(name), redirects="same-origin", **tls, **(http2 if name in HTTP2 else {}))
                 for name in names}
        sinks["fine"] = sink(healthy.url(), timeout="10s")
        routes = [{"topic": name, "sink": name} for name in sinks]
        relay = Relay(tmp_path, pg_shop.url, sinks, routes, relay={"grace": "%ds" % GRACE}, log={"level": "info"}, admin=True)
        with until_stopped(relay):
            deliver_for(pg_shop, healthy, 0.5)
            alone = deliver_for(pg_shop, healthy, 1)
            for name in names:
                pg_shop.enqueue(10, topic=name, max_attempts=100)
            before, began = cpu_seconds(relay), time.monotonic()
            beside = deliver_for(pg_shop, healthy, SECONDS)
            cpu = (cpu_seconds(relay) - before) / (time.monotonic() - began)
            served = hostile.served()
            assert all(served[name] for name in names), served
            figures = figures_of(alone, beside) + "; cpu %.2f; rss %d KiB" % (cpu, relay.rss_kib())
            print(crowd, figures)
            assert relay.metric("outbox_loop_turn_seconds_count") > 0
            assert_served_as_alone(alone, beside)
            assert relay.rss_kib() < RSS_KIB * PATIENCE, figures
            assert cpu < 0.9, figures
            stop_in_time(relay)
    states = dict(pg_shop.sql("SELECT status, count(*) FROM outbox.messages WHERE topic = 'fine' GROUP BY status"))
    assert states == {"delivered": len(healthy.came)}


# Names that end in .stuck have name servers that do not answer; all others are this machine.
RESOLVER = """
#include <netdb.h>
#include <dlfcn.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
int getaddrinfo(const char *name, const char *service, const struct addrinfo *hints, struct addrinfo **found)
{
    int (*real)(const char *, const char *, const struct addrinfo *, struct addrinfo **) = dlsym(RTLD_NEXT, "getaddrinfo");
    size_t len = name && !(hints && hints->ai_flags & AI_NUMERICHOST) ? strlen(name) : 0;
    if (len > 6 && strcmp(name + len - 6, ".stuck") == 0) {
        sleep(15);
        return EAI_AGAIN;
    }
    if (len > 5 && strcmp(name + len - 5, ".test") == 0)
        name = "127.0.0.1";
    return real(name, service, hints, found);
}
"""


def threads_of(relay):
    return len(os.listdir("/proc/%d/task" % relay.process.pid))


def test_names_without_an_answer(pg_shop, tmp_path):
    """N5 S10 S11: name servers that are silent keep nobody waiting but those who ask for these names."""
    with Healthy() as healthy:
        names = ["dead%d" % i for i in range(4)]
        sinks = {name: sink("http://%s.stuck/" % name, connect_timeout="400ms", concurrency=8) for name in names}
        sinks["fine"] = sink(healthy.url(host="healthy.test"), timeout="10s")
        routes = [{"topic": name, "sink": name} for name in sinks]
        relay = Relay(tmp_path, pg_shop.url, sinks, routes, relay={"grace": "%ds" % GRACE}, log={"level": "info"},
                      env=preload(tmp_path, "resolver", RESOLVER))
        with until_stopped(relay):
            deliver_for(pg_shop, healthy, 0.5)
            alone, before = deliver_for(pg_shop, healthy, 1), threads_of(relay)
            for name in names:
                pg_shop.enqueue(10, topic=name, max_attempts=100)
            beside = deliver_for(pg_shop, healthy, SECONDS)
            figures = figures_of(alone, beside) + "; %d threads more" % (threads_of(relay) - before)
            print(figures)
            assert_served_as_alone(alone, beside)
            assert threads_of(relay) - before <= 2 * len(names), figures
            stop_in_time(relay)
    outcomes = dict(pg_shop.sql("SELECT DISTINCT outcome, code FROM outbox.attempts WHERE outcome <> 'delivered'"))
    assert outcomes["retry"] == "http_resolve", outcomes
