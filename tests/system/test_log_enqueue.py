"""What enqueue writes: the message's place in the log, and a queue row only where the log is not its way.

Proves: N14, S2 N2 (order per key across transactions), S1 S18 M4 Y7.
"""
import json

import pytest

ROW = """SELECT m.topic, m.shard, m.ord::text::bigint, m.pos, m.sid, m.seq, m.xid::text::bigint, m.due, m.bytes,
                l.id = m.lane AS lane, EXISTS (SELECT FROM outbox.queue q WHERE q.id = m.id) AS queued, m.key
           FROM outbox.message m JOIN outbox.lane l ON l.namespace = m.namespace AND l.topic = m.topic ORDER BY m.pos, m.id"""


@pytest.fixture
def conn(db):
    with db.connect(autocommit=True) as conn:
        conn.execute("SELECT outbox.configure('*', 'lane', 'log')")
        yield conn


def rows(conn):
    from psycopg.rows import namedtuple_row
    with conn.cursor(row_factory=namedtuple_row) as cursor:
        return cursor.execute(ROW).fetchall()


def own(conn):
    return conn.execute("SELECT pg_current_xact_id()::text::bigint").fetchone()[0]


def test_without_a_key(conn):
    """N14 S1: one row, in the shard of messages without a key, at the place of its transaction."""
    with conn.transaction():
        conn.execute("SELECT outbox.enqueue('t', '{\"a\": 1}'), outbox.enqueue_bytes('t', 'abc')")
        xid = own(conn)
    one, two = rows(conn)
    assert (one.shard, one.ord, one.xid, one.sid, one.due, one.bytes) == (-1, xid, None, None, None, 8)
    assert (two.shard, two.ord, two.xid, two.sid, two.due, two.bytes) == (-1, xid, None, None, None, 3)
    assert one.pos < two.pos and one.lane and two.lane and not one.queued and not two.queued


def test_with_keys(conn):
    """S2 N2: the shard of the key, whatever the priority or delay."""
    with conn.transaction():
        for n in range(20):
            conn.execute("SELECT outbox.enqueue('t', '1', key => %s)", ("k%d" % n,))
        conn.execute("SELECT outbox.enqueue('t', '1', key => 'k0', priority => 7, deliver_after => 'tomorrow')")
        xid = own(conn)
    found = rows(conn)
    assert all(row.shard == row.sid % 8 and row.ord == xid and row.xid is None and not row.queued for row in found)
    assert {row.shard for row in found} == set(range(8))
    assert [row.key for row in found] == ["k%d" % n for n in range(20)] + ["k0"]
    assert found[-1].due is not None and found[-1].seq == 2 and found[-1].sid == found[0].sid
    assert conn.execute("SELECT DISTINCT ord::text::bigint FROM outbox.stream").fetchall() == [(xid,)]


@pytest.mark.parametrize("more", ["priority => 5", "deliver_after => 'tomorrow'", "priority => 0"])
def test_delay_and_priority_go_to_the_queue(conn, more):
    """Y7: without a key they have no order to keep."""
    conn.execute("SELECT outbox.enqueue('t', '1', %s)" % more)
    row, = rows(conn)
    assert (row.shard, row.ord, row.pos, row.queued, row.bytes) == (None, None, None, True, 1)
    assert (row.due is not None) == ("deliver" in more)
    assert conn.execute("SELECT q.lane = m.lane, q.bytes FROM outbox.queue q JOIN outbox.message m USING (id)").fetchone() == (True, 1)


@pytest.mark.parametrize("call", ["SELECT outbox.enqueue('t', %s::jsonb, key => 'k')",
                                  "SELECT outbox.enqueue_many(jsonb_build_array(jsonb_build_object('topic', 't', 'payload', %s::jsonb, 'key', 'k')))"])
def test_an_older_transaction_is_late(db, conn, call):
    """S2 N2: the number of the second is the lower one; it takes its place behind the first, and says so."""
    with db.connect() as other:
        older = own(other)
        with conn.transaction():
            conn.execute(call, ("1",))
            younger = own(conn)
        other.execute(call, ("2",))
        other.commit()
    first, second = rows(conn)
    assert older < younger
    assert (first.ord, first.xid, first.seq) == (younger, None, 1)
    assert (second.ord, second.xid, second.seq) == (younger, older, 2)
    assert first.pos < second.pos
    conn.execute(call, ("3",))
    last = rows(conn)[-1]
    assert last.seq == 3 and last.ord > younger and last.xid is None


def test_the_queue_as_a_setting(conn):
    """N14 N2: a namespace may keep to the queue; a key that used the log stays there, or a switch would break its order."""
    conn.execute("SELECT outbox.enqueue('t', '1', key => 'old')")
    conn.execute("SELECT outbox.configure('default', 'lane', 'queue')")
    conn.execute("SELECT outbox.enqueue('t', '2', key => 'new'), outbox.enqueue('t', '3'), outbox.enqueue('t', '4', key => 'old')")
    conn.execute("SELECT outbox.enqueue_many(%s)", (json.dumps(
        [{"topic": "t", "payload": n, "key": key} for n, key in ((5, "new"), (6, None), (7, "old"))]),))
    found = {row.seq and (row.key, row.seq): row for row in rows(conn)}
    logged = sorted(key for key, row in found.items() if key and row.shard is not None)
    assert logged == [("old", 1), ("old", 2), ("old", 3)]
    assert all(row.queued == (row.shard is None) == (row.ord is None) == (row.pos is None) for row in rows(conn))
    conn.execute("SELECT outbox.configure('default', 'lane', null)")
    conn.execute("SELECT outbox.enqueue('t', '8', key => 'new')")
    assert rows(conn)[3].key == "new" and rows(conn)[3].shard is not None


def test_many(conn):
    """S2 N2: the same rows as one by one, in the order of the array."""
    messages = [{"topic": "t", "payload": {"n": n}, "key": "k%d" % (n % 3)} if n % 2 else {"topic": "t", "payload": {"n": n}}
                for n in range(20)]
    messages += [{"topic": "t", "payload": 1, "priority": 6}, {"topic": "t", "payload_base64": "YWJj", "content_type": "a/b"},
                 {"topic": "t", "payload": 1, "key": "k0", "deliver_after": "2099-01-01"}]
    with conn.transaction():
        conn.execute("SELECT outbox.enqueue_many(%s)", (json.dumps(messages),))
        xid = own(conn)
    found = rows(conn)
    urgent = found.pop()
    assert urgent.pos is None and urgent.queued and urgent.shard is None
    assert [row.key for row in found] == [message.get("key") for message in messages if "priority" not in message]
    assert all(row.ord == xid and row.xid is None and not row.queued and row.lane
               and row.shard == (row.sid % 8 if row.key else -1) for row in found)
    assert found[-1].due is not None and all(row.due is None for row in found[:-1])
    assert [row.bytes for row in found[-2:]] == [3, 1] and found[0].bytes == len('{"n": 0}')


def test_a_refused_dedupe_key_writes_nothing(conn):
    """M4 S18: the second call leaves the key's numbers and the log alone."""
    for _ in range(2):
        conn.execute("SELECT outbox.enqueue('t', '1', key => 'k', dedupe_key => 'd')")
        conn.execute("SELECT outbox.enqueue_many(%s)", (json.dumps([{"topic": "t", "payload": 1, "key": "k", "dedupe_key": "e"}]),))
    assert [row.seq for row in rows(conn)] == [1, 2]


def test_the_setting_takes_two_words(conn):
    """N14: and an error names both."""
    from support.roles import error_of
    error = error_of(conn, "SELECT outbox.configure('*', 'lane', 'fast')")
    assert error.sqlstate == "OB001" and error.message_hint == "It takes log or queue."
