"""Errors in groups: what fails, how often, since when, where; by relays and by workers in SQL alike.

Proves: T4 (dead letters inspected, retried, discarded by group), V13 (operators see what fails), S13 (by code), Y5 (a tenant sees its own).
"""
import contextlib
import json
import sqlite3

import psycopg
import pytest

from support.box import STORES, fresh_box
from support.receiver import Receiver, status
from support.relay import Relay, wait_for

TENANT = "0a0a0a0a-1111-4222-8333-444444444444"


@pytest.fixture(params=STORES)
def box(request, tmp_path):
    return fresh_box(request, tmp_path)


def groups(box, *args):
    return [json.loads(line) for line in box.cli("errors", "--json", *args).stdout.splitlines()]


def test_groups_name_topics_and_sinks(box, tmp_path):
    """T4 V13 S13: dead letters and retries of a relay, by error; topics, sinks by the relay's routes, a sample, a filter term."""
    with Receiver(behave=status(400, body=b"order 17 is closed")) as receiver:
        for number in range(4):
            box.send("orders.paid" if number % 2 else "orders.sent", str(number))
        sinks = {"billing": {"kind": "http", "url": receiver.url("/hook"), "allow": ["127.0.0.0/8"], "breaker": {"failures": 0}}}
        with Relay(tmp_path, box.url, sinks, [{"topic": "orders.*", "sink": "billing"}]).running():
            wait_for(lambda: sum(group["dead"] for group in groups(box)) == 4, what="four dead letters")
            (group,) = groups(box)
            assert (group["count"], group["dead"], group["retrying"], group["code"]) == (4, 4, 0, "http_400"), group
            assert group["topics"] == ["orders.paid", "orders.sent"] and group["sinks"] == ["billing"], group
            assert group["first_seen"] <= group["last_seen"] and group["sample"] and not group["estimated"]
            text = box.cli("errors").stdout
            assert group["fingerprint"] in text and "billing" in text and "orders.paid, orders.sent" in text, text
    term = "group:" + group["fingerprint"]
    assert len(box.list(term)) == 4 and len(box.list(term, "topic:*.paid")) == 2
    assert box.list("group:0000000000000001") == []
    refused = box.cli("list", "group:12", check=False)
    assert refused.returncode == 2 and "outbox errors" in refused.stderr
    assert groups(box, "--limit", "1") == groups(box)[:1]


def test_nothing_failed(box):
    """V13: no group, no error."""
    box.send("orders", "1")
    assert groups(box) == [] and box.cli("errors").stdout == ""


def test_a_worker_in_sql_and_a_tenant(db):
    """T4 Y5: nack in SQL makes the same groups as a worker of the library; a tenant sees its own messages, samples and no sinks."""
    box = fresh_box(type("R", (), {"param": "postgresql", "getfixturevalue": staticmethod(lambda _: db)}), None)
    box.kill("orders", "1", code="http_500", error="order 1 is broken")
    with psycopg.connect(db.url(), autocommit=True) as conn:
        conn.execute("set app.current_tenant_id = '%s'" % TENANT)
        conn.execute("select outbox.enqueue('orders', '{}', tenant_id => %s)", (TENANT,))
        conn.execute("reset app.current_tenant_id")
        conn.execute("select outbox.nack(array_agg(id), array_agg(token), '{order 2 is broken}', '{http_500}') "
                     "from outbox.claim('w', 10)")
        seen = conn.execute("select fingerprint, count, dead, retrying, sample from outbox.error_groups").fetchall()
        assert [row[1:] for row in seen] == [(2, 1, 1, "order 1 is broken")], seen
        assert conn.execute("select fingerprint from outbox.dead_letters").fetchall() == [(seen[0][0],)]
        conn.execute("set role outbox_tenant")
        assert conn.execute("select count(*) from outbox.error_groups").fetchone() == (0,)
        conn.execute("set app.current_tenant_id = '%s'" % TENANT)
        own = conn.execute("select fingerprint, count, dead, sample, sinks from outbox.error_groups").fetchall()
        assert own == [(seen[0][0], 1, 0, "order 2 is broken", None)], own


def figures(box):
    sql = "select sum(delivered), sum(failed), sum(dead), count(pending) from %s"
    if box.url.startswith("sqlite:"):
        with contextlib.closing(sqlite3.connect(box.url[7:])) as conn:
            return conn.execute(sql % "outbox_series").fetchone()
    with psycopg.connect(box.url) as conn:
        return tuple(None if value is None else int(value) for value in conn.execute(sql % "outbox.series").fetchone())


def test_relays_record_the_last_hour(box, tmp_path):
    """S15 Y6: what a relay did is in the store, also what it did just before it ended; and how the outbox stood."""
    for number in range(8):
        box.send("orders", str(number))
    sinks = {"out": {"kind": "null"}, "gone": {"kind": "stub", "script": "terminal"}}
    box.send("letters", "1")
    with Relay(tmp_path, box.url, sinks, [{"topic": "orders", "sink": "out"}, {"topic": "letters", "sink": "gone"}]).running():
        wait_for(lambda: not box.list("status:pending") and not box.list("status:processing"), what="all delivered")
    delivered, failed, dead, told = figures(box)
    assert (delivered, failed, dead) == (8, 1, 1) and told >= 1, figures(box)
