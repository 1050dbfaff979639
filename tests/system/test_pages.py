"""A page of messages costs what its rows cost, however many messages there are: from the command line, from SQL, on both
stores. What is counted is pages of the database read, not time.

Proves: C2 U5 V8 (the views stay behind row security).
"""
import json
import os
import re

import pytest

from support import past
from support.database import ROOT
from support.roles import people
from support.sqlite_file import Outbox

MANY = 40000
PAGE = 20
TENANT = "11111111-1111-4111-8111-111111111111"
FILL = """
INSERT INTO outbox.lane (id, namespace, topic) VALUES (1, 'default', 'orders');
INSERT INTO outbox.message (id, created_at, tenant_id, priority, max_attempts, namespace, topic, payload)
SELECT outbox.uuid7(at), at, CASE WHEN i % 100 = 0 THEN '{tenant}'::uuid END, 4, 5, 'default', 'orders', '{{"x": 1}}'
  FROM generate_series(1, {many}) i, LATERAL (SELECT now() - ({many} - i) * interval '6 days' / {many} AS at) t;
INSERT INTO outbox.attempt (message_id, attempt_no, outcome, spent, claimed_at, completed_at, tenant_id, worker)
SELECT id, 1, CASE WHEN hashtext(id::text) % 20 = 1 THEN 3 ELSE 1 END, 1, created_at, created_at, tenant_id, 'w'
  FROM outbox.message;
INSERT INTO outbox.queue (id, lane, due, max_attempts, prio, shard, tenant_id)
SELECT id, 1, created_at, 5, 4, -1, tenant_id FROM outbox.message WHERE hashtext(id::text) % 20 = 0;
INSERT INTO outbox.act (actor, action, message_id)
SELECT 'ops', 'discard', id FROM outbox.message m WHERE hashtext(id::text) % 20 = 1;
ANALYZE outbox.message, outbox.attempt, outbox.queue, outbox.act, outbox.dead;
""".format(many=MANY, tenant=TENANT)


@pytest.fixture(scope="module")
def full(pg_server, pg_template):
    from support import database
    db = database.create_database(pg_server, "pages", pg_template.name)
    with db.connect(autocommit=True) as conn:
        for days in range(1, 8):
            past.make_period(conn, days)
        conn.execute(FILL)
    yield db
    database.drop_database(db)


def cost(conn, statement):
    """How many pages a statement touches, and how many rows it gives."""
    plan = conn.execute("EXPLAIN (ANALYZE, BUFFERS, FORMAT JSON) " + statement).fetchone()[0][0]["Plan"]
    return plan["Shared Hit Blocks"] + plan["Shared Read Blocks"], plan["Actual Rows"]


def statement(name, **params):
    """A statement of the store's, for these parameters."""
    with open(os.path.join(ROOT, "sql", "postgres", "stmt", name + ".sql")) as file:
        text = re.sub("--.*", "", file.read()).replace("@schema@", "outbox")
    return re.sub(r"\$(\d+)", lambda match: "(%s)" % params.get("p" + match[1], "NULL"), text)


def page(name, **params):
    return statement(name, p10=str(PAGE), p11="true", **params)


FROM_SQL = {
    "messages": "SELECT * FROM outbox.messages ORDER BY id DESC LIMIT 20",
    "next page": "SELECT * FROM outbox.messages WHERE id < outbox.uuid_at(now() - interval '3 days') ORDER BY id DESC LIMIT 20",
    "a topic": "SELECT * FROM outbox.messages WHERE topic = 'orders' ORDER BY id DESC LIMIT 20",
    "a tenant": "SELECT * FROM outbox.messages WHERE tenant_id = '%s' ORDER BY id DESC LIMIT 20" % TENANT,
    "waiting": "SELECT * FROM outbox.queued ORDER BY id DESC LIMIT 20",
    "dead": "SELECT * FROM outbox.dead_letters ORDER BY id DESC LIMIT 20",
    "as a known table": "SELECT * FROM outbox.outbox ORDER BY id DESC LIMIT 20",
    "list": page("list"),
    "list delivered": page("list", p8="'delivered'"),
    "list a topic": page("list", p2="'default'", p3="'orders'"),
    "list a tenant": page("list", p4="'%s'" % TENANT),
    "list older": page("list", p9="now() - interval '3 days'"),
    "list next page": page("list", p12="outbox.uuid_at(now() - interval '3 days')"),
    "list pending": page("list_queued", p8="'pending'"),
    "list processing": page("list_queued", p8="'processing'"),
    "list dead": page("list_dead", p8="'dead'"),
    "list discarded": page("list_discarded", p8="'discarded'"),
}


@pytest.mark.parametrize("what", FROM_SQL)
def test_a_page_is_cheap(full, what):
    """C2: some hundred pages for 20 rows of 40,000, which take thousands; and it is full, where there is as much."""
    with people(full).connect("auditor", autocommit=True) as conn:
        blocks, rows = cost(conn, FROM_SQL[what])
    assert blocks < 1500 and (rows == PAGE or what in ("dead", "list dead", "list processing")), (blocks, rows)


def test_a_tenants_page_is_cheap(full):
    """C2 V8: of a tenant's own session too, which sees its own alone."""
    with people(full).connect("tenant", tenant=TENANT, autocommit=True) as conn:
        blocks, rows = cost(conn, FROM_SQL["messages"])
        assert blocks < 3000 and rows == PAGE
        assert conn.execute("SELECT count(*) FROM outbox.messages").fetchone() == (MANY // 100,)
        assert conn.execute("SELECT count(*) FROM outbox.messages WHERE tenant_id IS DISTINCT FROM %s", (TENANT,)).fetchone() == (0,)


def pages(cli, *args):
    """The ids of a listing, page by page, as the command line gives them."""
    found, after = [], []
    while True:
        rows = [json.loads(line)["id"] for line in cli("list", "--json", "--limit", "7", *after, *args).stdout.splitlines()]
        found += rows
        if len(rows) < 7:
            return found
        after = ["--after", rows[-1]]


@pytest.mark.parametrize("kind", ["postgresql", "sqlite"])
def test_pages_follow_one_another(request, tmp_path, kind):
    """C2: page after page there is every message once, newest first; messages that come meanwhile do not move them."""
    if kind == "sqlite":
        outbox = Outbox.create(tmp_path / "pages.db")
        cli = outbox.cli
    else:
        cli = request.getfixturevalue("db").cli
    for i in range(20):
        cli("send", "t%d" % (i % 2), str(i), "--key", "k")
    everything = [json.loads(line)["id"] for line in cli("list", "--json").stdout.splitlines()]
    assert len(everything) == 20 and pages(cli) == everything
    assert pages(cli, "--status", "pending") == everything
    assert pages(cli, "--topic", "t1") == everything[::2]
    note = cli("list", "--limit", "3").stderr
    assert "--after %s" % everything[2] in note
    refused = cli("list", "--after", "yesterday", check=False)
    assert refused.returncode == 2 and "takes a message id" in refused.stderr
