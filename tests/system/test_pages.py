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

MANY = 100000
PAGE = 20
TENANT = "11111111-1111-4111-8111-111111111111"
FILL = """
INSERT INTO outbox.lane (id, namespace, topic) VALUES (1, 'default', 'orders');
INSERT INTO outbox.message (id, created_at, tenant_id, priority, max_attempts, namespace, topic, payload)
SELECT outbox.uuid7(at), at, CASE WHEN i % 100 = 0 THEN '{tenant}'::uuid END, 4, 5, 'default', 'orders', '{{"x": 1}}'
  FROM generate_series(1, {many}) i, LATERAL (SELECT now() - ({many} - i) * interval '6 days' / {many} AS at) t;
INSERT INTO outbox.attempt (message_id, attempt_no, outcome, spent, claimed_at, completed_at, tenant_id, worker)
SELECT id, 1, CASE WHEN abs(hashtext(id::text) % 20) = 1 THEN 3 ELSE 1 END, 1, created_at, created_at, tenant_id, 'w'
  FROM outbox.message;
INSERT INTO outbox.queue (id, lane, due, max_attempts, prio, shard, tenant_id)
SELECT id, 1, created_at, 5, 4, -1, tenant_id FROM outbox.message WHERE hashtext(id::text) % 20 = 0;
INSERT INTO outbox.act (actor, action, message_id)
SELECT 'ops', 'discard', id FROM outbox.message m WHERE abs(hashtext(id::text) % 20) = 1;
INSERT INTO outbox.dead
SELECT m.*, 1, 1, 'terminal', 'http_503', 'Timed out', now(), false, 5, false FROM outbox.message m WHERE abs(hashtext(id::text) % 20) IN (2, 5, 6);
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


FROM_SQL = {
    "messages": "SELECT * FROM outbox.messages ORDER BY id DESC LIMIT 20",
    "next page": "SELECT * FROM outbox.messages WHERE id < outbox.uuid_at(now() - interval '3 days') ORDER BY id DESC LIMIT 20",
    "a topic": "SELECT * FROM outbox.messages WHERE topic = 'orders' ORDER BY id DESC LIMIT 20",
    "a tenant": "SELECT * FROM outbox.messages WHERE tenant_id = '%s' ORDER BY id DESC LIMIT 20" % TENANT,
    "waiting": "SELECT * FROM outbox.queued ORDER BY id DESC LIMIT 20",
    "dead": "SELECT * FROM outbox.dead_letters ORDER BY id DESC LIMIT 20",
    "as a known table": "SELECT * FROM outbox.outbox ORDER BY id DESC LIMIT 20",
}


@pytest.mark.parametrize("what", FROM_SQL)
def test_a_page_is_cheap(full, what):
    """C2: some hundred pages for 20 rows of 100,000, which take thousands; and it is full, where there is as much."""
    with people(full).connect("auditor", autocommit=True) as conn:
        blocks, rows = cost(conn, FROM_SQL[what])
    assert blocks < 1500 and rows == PAGE, (blocks, rows)


# A filter, by the parameters of list.sql: the part it is looked for in, how many messages it looks at, the parameters, and the rows of its page.
LISTS = {
    "all": ("message", PAGE, {}, PAGE),
    "next page": ("message", PAGE, {18: "OLDER"}, PAGE),
    "status:delivered": ("message", 5000, {11: "'delivered'"}, PAGE),
    "topic:orders": ("message", 50000, {3: "'orders'"}, PAGE),
    "topic:nothing": ("message", 50000, {3: "'nothing'"}, 0),
    "tenant:": ("message", PAGE, {4: "'%s'" % TENANT}, PAGE),
    "age:>3d": ("message", 50000, {12: "WHEN"}, PAGE),
    "attempts:>5": ("message", 5000, {14: "6"}, 0),
    "key:nothing": ("message", 50000, {5: "'nothing'"}, 0),
    "status:pending": ("queue", PAGE, {11: "'pending'"}, PAGE),
    "status:pending topic:nothing": ("queue", 5000, {11: "'pending'", 3: "'nothing'"}, 0),
    "status:processing": ("taken", 50000, {11: "'processing'"}, 0),
    "status:dead": ("dead", PAGE, {11: "'dead'"}, PAGE),
    "status:dead error:~timed": ("dead", 50000, {11: "'dead'", 10: "'TIMED'"}, PAGE),
    "status:dead error:~nothing": ("dead", 50000, {11: "'dead'", 10: "'nothing'"}, 0),
    "status:discarded": ("discarded", PAGE, {11: "'discarded'"}, PAGE),
    "code:http_5*": ("failed", 5000, {9: "'http_5*'"}, PAGE),
    "code:nothing": ("failed", 5000, {9: "'nothing'"}, 0),
}


def scans(plan, look):
    """The relations of which a plan reads many more rows in their own order than a list may look at."""
    if plan["Node Type"] == "Seq Scan" and (plan["Actual Rows"] + plan.get("Rows Removed by Filter", 0)) * plan["Actual Loops"] > 2 * look + 1000:
        yield plan["Relation Name"]
    for part in plan.get("Plans", []):
        yield from scans(part, look)


def explain(conn, text):
    return conn.execute("EXPLAIN (ANALYZE, BUFFERS, FORMAT JSON) " + text).fetchone()[0][0]["Plan"]


@pytest.mark.parametrize("what", LISTS)
def test_a_list_reads_no_table_whole(full, what):
    """V13 C2: whatever a filter names, a page is found by indexes, and looks at so many messages at most: a filter that matches nothing
    costs no more than one that matches the oldest of them."""
    part, look, params, wanted = LISTS[what]
    older = full.sql("SELECT outbox.uuid_at(now() - interval '3 days'), now() - interval '3 days'")[0]  # as the store has it: a constant
    params = {number: value.replace("OLDER", "'%s'" % older[0]).replace("WHEN", "'%s'" % older[1]) for number, value in params.items()}
    at = {5: 12, 6: 13, 4: 18, 2: 16, 3: 17}  # parameters of list_edge, and which of list they are
    suffix = "" if part == "message" else "_" + part
    edges = {"p%d" % number: params[other] for number, other in at.items() if other in params}
    with people(full).connect("auditor", autocommit=True) as conn:
        if part in ("message", "dead"):
            edges["p7"] = params.get(4, "NULL")
        edge = statement("list_edge" + suffix, p1=str(look), **edges)
        row = conn.execute(edge).fetchone()
        page = statement("list" + suffix, p19="'%s'" % row[0] if row else "NULL", p20=str(PAGE), p21="true",
                         **{"p%d" % number: value for number, value in params.items()})
        plans = [explain(conn, edge), explain(conn, page)]
    blocks = sum(plan["Shared Hit Blocks"] + plan["Shared Read Blocks"] for plan in plans)
    assert plans[1]["Actual Rows"] == wanted and [name for plan in plans for name in scans(plan, look)] == []
    assert blocks < (1500 if look == PAGE else 60 * look if look < 50000 else 3 * look), blocks


def test_a_long_log_is_listed_by_pages(db):
    """V13 C2: more messages than can be sorted wait in the log: a page of them is the newest, all pages have each once."""
    db.sql("SELECT count(outbox.enqueue('t', '{}')) FROM generate_series(1, 12000)")
    assert db.sql("SELECT waiting FROM outbox.log_depth") == [(10001,)]
    newest = [str(row[0]) for row in db.sql("SELECT id FROM outbox.message ORDER BY id DESC LIMIT 25")]
    assert [json.loads(line)["id"] for line in db.cli("list", "status:pending", "--limit", "25", "--json").stdout.splitlines()] == newest
    more = db.cli("list", "status:pending", "--limit", "5", "--json", "--after", newest[4]).stdout.splitlines()
    assert [json.loads(line)["id"] for line in more] == newest[5:10]
    none = db.cli("list", "status:pending", "recipient:nobody")
    assert "None matches among the messages looked at" in none.stderr and "--after" in none.stderr


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
