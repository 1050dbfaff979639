"""Outcome hooks on SQLite: the application's own triggers on outbox_event.

Proves: Y4 (outcomes, and an operator's retry and discard, change the domain rows in the same transaction; the sink's output
reaches them), and that a hook which fails fails nothing but itself.
"""
import pytest

from support.sqlite_file import Outbox, needs_sqlite

pytestmark = needs_sqlite


@pytest.fixture
def outbox(tmp_path):
    box = Outbox.create(tmp_path / "shop.db")
    conn = box.connect()
    conn.executescript("""
        CREATE TABLE node (id TEXT PRIMARY KEY, state TEXT, note TEXT);
        INSERT INTO node (id) VALUES ('n1'), ('n2'), ('n3');
        CREATE TABLE seen (event, id, status, topic, attempt, actor, code, error, reference, output, subject);
        CREATE TRIGGER watch AFTER INSERT ON outbox_event BEGIN
            INSERT INTO seen VALUES (NEW.event, NEW.id, NEW.status, NEW.topic, NEW.attempt, NEW.actor, NEW.code, NEW.error,
                                     NEW.reference, NEW.output, NEW.subject);
        END;
    """)
    conn.close()
    return box


def send(outbox, *nodes, **columns):
    conn = outbox.connect()
    for node in nodes:
        conn.execute("INSERT INTO outbox (topic, payload, subject, priority, max_attempts) VALUES ('mail', '{}', ?, ?, 2)",
                     (node, 9 - int(node[1])))
    conn.close()


def states(outbox):
    return dict(outbox.sql("SELECT subject, status FROM outbox_messages"))


def events(outbox):
    return outbox.sql("SELECT event, subject, status, attempt, actor FROM seen ORDER BY rowid")


def test_every_outcome(outbox):
    """Y4: delivered, retry, dead, redriven, discarded; with all there is to know."""
    send(outbox, "n1")
    outbox.actor("settle", 1, 2, 0)
    outbox.actor("settle", 1, 2, 0)
    message_id = outbox.value("SELECT id FROM outbox_messages")
    outbox.cli("retry", message_id, "--reason", "fixed", "--yes")
    outbox.actor("settle", 1, 3, 0)
    outbox.cli("discard", message_id, "--reason", "hopeless", "--yes")
    send(outbox, "n2")
    outbox.actor("settle", 1, 1, 1)
    rows = events(outbox)
    assert [row[:4] for row in rows] == [
        ("retry", "n1", "pending", 1), ("dead", "n1", "dead", 2), ("redriven", "n1", "pending", 2), ("dead", "n1", "dead", 3),
        ("discarded", "n1", "discarded", 3), ("delivered", "n2", "delivered", 1)]
    assert rows[0][4] == "actor" and rows[1][4] == "actor"
    assert outbox.sql("SELECT code, error, reference, output FROM seen WHERE event = 'delivered'") == [
        ("c", "e", "ref", '{"said": "ok"}')]
    outbox.check_sound()


def test_the_domain_changes_with_the_outcome(outbox):
    """Y4: in the same transaction, each trigger for its own events; a hook may enqueue."""
    conn = outbox.connect()
    conn.executescript("""
        CREATE TRIGGER told AFTER INSERT ON outbox_event WHEN NEW.topic = 'mail' AND NEW.event = 'delivered' BEGIN
            UPDATE node SET state = 'success', note = json_extract(NEW.output, '$.said') WHERE id = NEW.subject;
            INSERT INTO outbox (topic, payload, subject) VALUES ('receipt', '{}', NEW.subject);
        END;
        CREATE TRIGGER failed AFTER INSERT ON outbox_event WHEN NEW.topic = 'mail' AND NEW.event = 'dead' BEGIN
            UPDATE node SET state = 'error', note = NEW.error WHERE id = NEW.subject;
        END;
    """)
    conn.close()
    send(outbox, "n1", "n2")
    outbox.actor("settle", 2, 3, 1)
    assert outbox.sql("SELECT id, state, note FROM node ORDER BY id") == [
        ("n1", "success", "ok"), ("n2", "error", "e"), ("n3", None, None)]
    assert outbox.sql("SELECT topic, subject FROM outbox_messages WHERE status = 'pending'") == [("receipt", "n1")]


def test_a_claim_that_buries_fires(outbox):
    """Y4 N10: a message that expires is told too."""
    conn = outbox.connect()
    conn.execute("INSERT INTO outbox (topic, payload, subject, expires_at) VALUES ('mail', '{}', 'n1', 1)")
    conn.close()
    assert outbox.actor("claim", 10, 1).stdout == ""
    assert [row[:3] for row in events(outbox)] == [("dead", "n1", "dead")]


BROKEN = {
    "abort": "SELECT RAISE(ABORT, 'no such node') WHERE NEW.subject = 'n2';",
    "fail": "UPDATE node SET state = 'half done' WHERE id = NEW.subject;"
            "SELECT RAISE(FAIL, 'no such node') WHERE NEW.subject = 'n2';",
    "constraint": "INSERT INTO node (id) SELECT 'n1' WHERE NEW.subject = 'n2';",
    "rollback": "SELECT RAISE(ROLLBACK, 'no such node') WHERE NEW.subject = 'n2';",
}


@pytest.mark.parametrize("kind", BROKEN)
def test_a_hook_that_fails(outbox, kind):
    """Y4: the outcomes stand, the event is kept and can be given again, what the hook did is undone."""
    conn = outbox.connect()
    conn.execute("CREATE TRIGGER broken AFTER INSERT ON outbox_event BEGIN %s END" % BROKEN[kind])
    send(outbox, "n1", "n2", "n3")
    assert [line.split()[1:] for line in outbox.actor("settle", 3, 1, 3).stdout.splitlines()] == [["0", "0"]] * 3
    assert states(outbox) == {"n1": "delivered", "n2": "delivered", "n3": "delivered"}
    failures = outbox.sql("SELECT event, subject, tries, failure FROM outbox_hook_failure ORDER BY n")
    kept = ["n1", "n2", "n3"] if kind == "rollback" else ["n2"]
    assert [row[:3] for row in failures] == [("delivered", node, 1) for node in kept]
    assert "no such node" in failures[0][3] or "UNIQUE" in failures[0][3]
    # The other triggers saw what was not kept, and nothing of what was.
    assert [row[1] for row in events(outbox)] == [node for node in ("n1", "n2", "n3") if node not in kept]
    if kind == "fail":
        assert outbox.sql("SELECT state FROM node WHERE id = 'n2'") == [(None,)]
    assert outbox.actor("hooks").stdout == ("2\n" if kind == "rollback" else "0\n")
    assert outbox.sql("SELECT subject, tries FROM outbox_hook_failure") == [("n2", 2)]
    conn.execute("DROP TRIGGER broken")
    assert outbox.actor("hooks").stdout == "1\n"
    assert outbox.sql("SELECT * FROM outbox_hook_failure") == []
    assert sorted(row[1] for row in events(outbox)) == ["n1", "n2", "n3"]
    outbox.check_sound()


def test_a_hook_that_cannot_be_compiled(outbox):
    """Y4: a trigger whose table is gone keeps no outcome from being recorded."""
    conn = outbox.connect()
    conn.executescript("CREATE TABLE gone (a); CREATE TRIGGER broken AFTER INSERT ON outbox_event BEGIN"
                       " INSERT INTO gone VALUES (NEW.id); END; DROP TABLE gone;")
    send(outbox, "n1", "n2")
    outbox.actor("settle", 2, 3, 1)
    assert states(outbox) == {"n1": "delivered", "n2": "dead"}
    assert [row[0] for row in outbox.sql("SELECT event FROM outbox_hook_failure ORDER BY n")] == ["delivered", "dead"]
    assert "gone" in outbox.value("SELECT failure FROM outbox_hook_failure LIMIT 1")
    conn.execute("CREATE TABLE gone (a)")
    assert outbox.actor("hooks").stdout == "2\n"
    assert len(conn.execute("SELECT * FROM gone").fetchall()) == 2


def test_a_hook_in_the_way_of_an_operator(outbox):
    """Y4 T4: retry and discard go on record whatever a hook does."""
    send(outbox, "n1")
    outbox.actor("settle", 1, 3, 0)
    conn = outbox.connect()
    conn.execute("CREATE TRIGGER broken AFTER INSERT ON outbox_event BEGIN SELECT RAISE(ROLLBACK, 'never'); END")
    message_id = outbox.value("SELECT id FROM outbox_messages")
    outbox.cli("retry", message_id, "--reason", "fixed", "--yes")
    assert states(outbox) == {"n1": "pending"}
    assert outbox.sql("SELECT action, reason FROM outbox_acts") == [("retry", "fixed")]
    assert outbox.sql("SELECT event FROM outbox_hook_failure") == [("redriven",)]
