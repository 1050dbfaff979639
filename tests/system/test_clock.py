"""Times at the edge: a clock that was ten years ahead for a while, and the last year that PostgreSQL knows.

Proves: S1 M10 S7 Y7.
"""
import json

import pytest

from support import past
from support.roles import error_of
from support.sqlite_file import Outbox

from test_retention import send

LAST = "294276-12-31 23:59:59.999999Z"  # of PostgreSQL
LAST_MOMENT = "9999-12-31 23:59:59.999999Z"  # of a message


@pytest.fixture
def conn(db):
    with db.connect(autocommit=True) as conn:
        past.purge(conn)
        yield conn


def test_partitions_of_the_future_do_not_stop_the_present_ones(db, conn):
    """S1 Y7: a purge ran while the clock was ten years ahead. Its partitions are no reason to make none today."""
    for suffix, in conn.execute("SELECT suffix FROM outbox.period").fetchall():
        for parent in ("message", "attempt"):
            conn.execute("DROP TABLE outbox.%s_%s" % (parent, suffix))
    conn.execute("DELETE FROM outbox.period")
    past.make_period(conn, -3652)
    conn.execute("SELECT outbox.configure('*', 'partition_width', '3 days')")
    past.purge(conn)
    assert conn.execute("SELECT count(*) FROM outbox.period WHERE start <= now() AND finish > now()").fetchone() == (1,)
    assert conn.execute("SELECT max(finish) > now() + interval '6 days' FROM outbox.period WHERE start < now() + interval "
                        "'1 year'").fetchone() == (True,)
    send(db, "today")
    assert conn.execute("SELECT tableoid::regclass::text FROM outbox.message").fetchone()[0] != "outbox.message_default"
    assert past.purge(conn) == [("done", "nothing is left to do", 0)]


def test_a_partition_ends_where_one_of_the_future_begins(db, conn):
    """S1 Y7: no two overlap."""
    past.make_period(conn, -10, days=4)
    conn.execute("SELECT outbox.configure('*', 'partition_width', '8 days')")
    past.purge(conn)
    rows = conn.execute("SELECT start, finish, lead(start) OVER (ORDER BY start) FROM outbox.period ORDER BY 1").fetchall()
    assert all(after is None or after == finish for _, finish, after in rows), rows


def test_leases_and_delays_of_the_future_end(db, conn):
    """M10: what was claimed, or given back, or enqueued while the clock was ahead is due today. What somebody wants to be
    sent in ten years is not."""
    conn.execute("SELECT outbox.configure('*', 'lane', 'queue')")
    for what in ("claimed", "given back", "in an hour"):
        send(db, what)
    later = send(db, "in ten years", deliver_after="2099-01-01")
    conn.execute("UPDATE outbox.queue q SET until = now() + interval '10 years', holder = 'w', since = now() + interval '10 "
                 "years', attempts = 1, spent = 1 FROM outbox.message m WHERE m.id = q.id AND payload = '\"claimed\"'")
    conn.execute("UPDATE outbox.queue q SET due = now() + interval '10 years', since = now() + interval '10 years' FROM "
                 "outbox.message m WHERE m.id = q.id AND payload = '\"given back\"'")
    conn.execute("UPDATE outbox.queue q SET due = now() + interval '10 years 1 hour', since = now() + interval '10 years' FROM "
                 "outbox.message m WHERE m.id = q.id AND payload = '\"in an hour\"'")
    new = send(db, "enqueued")
    ahead = past.aged_id(conn, new, -3652)
    conn.execute("UPDATE outbox.message SET id = %s, created_at = created_at + interval '3652 days' WHERE id = %s", (ahead, new))
    conn.execute("UPDATE outbox.queue q SET id = m.id, due = m.created_at FROM outbox.message m WHERE q.id = %s AND m.id = %s",
                 (new, ahead))
    assert conn.execute("SELECT count(*) FROM outbox.claim('w')").fetchone() == (0,)
    past.purge(conn)
    assert conn.execute("SELECT payload FROM outbox.claim('w') ORDER BY 1").fetchall() == [
        ("claimed",), ("enqueued",), ("given back",)]
    assert conn.execute("SELECT q.due BETWEEN now() + interval '50 min' AND now() + interval '70 min' FROM outbox.queue q JOIN "
                        "outbox.message m USING (id) WHERE payload = '\"in an hour\"'").fetchone() == (True,)
    assert conn.execute("SELECT due FROM outbox.queue WHERE id = %s", (later,)).fetchone()[0].year == 2099


def test_leases_and_delays_of_the_future_end_on_sqlite(tmp_path):
    """M10 S7: the same; and messages of the future do not stop retention."""
    outbox = Outbox.create(tmp_path / "clock.db")
    for i in range(2):
        outbox.cli("send", "t", str(i))
    outbox.sql("UPDATE outbox_log SET admitted = 2")
    assert outbox.value("SELECT count(*) FROM outbox_queue") == 2
    years = 10 * 365 * 86400 * 1000000
    outbox.sql("UPDATE outbox_queue SET due = due + %d, updated_at = updated_at + %d WHERE n = 1" % (years, years))
    outbox.sql("UPDATE outbox_queue SET state = 1, until = updated_at + %d, holder = 'w', claimed_at = updated_at, attempts = 1, "
               "spent = 1, ceiling = 5, retry_base = 1000, retry_cap = 1000 WHERE n = 2" % years)
    outbox.cli("purge")
    assert outbox.sql("SELECT n FROM outbox_queue WHERE due > updated_at + 1000000 OR until > updated_at + 10000000") == []


@pytest.mark.parametrize("retention, width", [("90 days", "1 hour"), ("2 years", "1 day"), ("forever", "1 day")])
def test_partitions_stay_few(db, conn, retention, width):
    """Y7 S7: how many partitions there are does not grow with the retention time: the lock table is not endless."""
    conn.execute("SELECT outbox.configure('*', 'partition_width', %s)", (width,))
    conn.execute("SELECT outbox.configure('*', 'retention', %s)", (retention,))
    past.purge(conn)
    widest = conn.execute("SELECT extract(epoch FROM max(finish - start)) FROM outbox.period").fetchone()[0]
    kept = min(10 * 365, {"90 days": 90, "2 years": 730, "forever": 10 ** 6}[retention])
    assert kept * 86400 / float(widest) < 40


def test_the_last_year(db, conn):
    """S7 Y7: times near the end of what PostgreSQL has break nothing: neither functions nor the command line."""
    far = send(db, "far", deliver_after=LAST_MOMENT, expires_at=LAST_MOMENT)
    send(db, "near", expires_at=LAST_MOMENT)
    assert conn.execute("SELECT payload FROM outbox.claim('w')").fetchall() == [("near",)]
    assert conn.execute("SELECT outbox.uuid_at(%s) > outbox.uuid_at(now()), outbox.uuid_at('infinity') >= outbox.uuid_at(%s), "
                        "outbox.uuid_at('-infinity') = outbox.uuid_at('1969-01-01')", (LAST, LAST)).fetchone() \
        == (True, True, True)
    for setting in ("retention", "attempt_retention"):
        conn.execute("SELECT outbox.configure('*', %s, '170000000 years')", (setting,))
    assert error_of(conn, "SELECT outbox.configure('*', 'partition_width', '290000 years')").sqlstate == "OB001"
    assert past.purge(conn)[-1][0] == "done"
    assert conn.execute("SELECT outbox.retry(before => %s)", (LAST,)).fetchone() == (0,)
    listed = [json.loads(line) for line in db.cli("list", "--json").stdout.splitlines()]
    assert [row["next_attempt_at"][:4] for row in listed if row["id"] == str(far)] == ["9999"]
    assert "9999-12-31" in db.cli("show", str(far)).stdout
    assert db.cli("status").returncode == 0
