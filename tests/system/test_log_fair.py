"""A flood of one topic in the log does not hold the others back.

Proves: M18 M20 (a topic's or a tenant's flood delays nobody else for long), S2 (all of it arrives).
"""
import time

import pytest


def settle_window(conn, taken, nonce):
    shard, window, size = taken[:3]
    ids = [row[0] for row in conn.execute("select id from outbox.window_messages where nonce = %s", (nonce,))]
    conn.execute("select outbox.settle_window(array[%s::int], array[%s::bigint], array[%s::bigint], '{0}', %s::int[], %s::uuid[], %s::int[])",
                 (shard, window, nonce, [1] * size, ids, [1] * size))
    return ids


def claim(conn):
    rows = conn.execute("select id, token from outbox.claim('w', 100, admit => false)").fetchall()
    if rows:
        conn.execute("select outbox.ack(%s::uuid[], %s::bigint[])", ([row[0] for row in rows], [row[1] for row in rows]))
    return [row[0] for row in rows]


def deliveries(conn):
    """The ids in the order of their deliveries: windows and claims by turns, each of a hundred and taking twenty milliseconds."""
    nonce = 0
    while True:
        nonce += 1
        time.sleep(0.02)
        taken = conn.execute("select shard, id, size, more, busy, queued from outbox.take('w', 100, '30 s', %s)", (nonce,)).fetchone()
        found = settle_window(conn, taken, nonce) if taken[2] else []
        if taken[5]:
            found += claim(conn)
        if not found and not taken[3]:
            return
        yield from found


@pytest.mark.parametrize("other", ["topic => 'b'", "topic => 'a', tenant_id => '00000000-0000-4000-8000-000000000002'"])
def test_m18_m20_a_flood_does_not_hold_others_back(db, other):
    with db.connect(autocommit=True) as conn:
        tenant = ", tenant_id => '00000000-0000-4000-8000-000000000001'" if "tenant" in other else ""
        conn.execute("select count(outbox.enqueue(topic => 'a', payload => '1'%s)) from generate_series(1, 12000)" % tenant)
        (late,) = conn.execute("select id from outbox.enqueue(%s, payload => '1')" % other).fetchone()
        time.sleep(0.6)
        order = list(deliveries(conn))
        assert len(order) == len(set(order)) == 12001
        assert order.index(late) < 6000


def test_m20_without_others_the_log_is_not_left(db):
    """A flood of the only topic there is stays in the log: the queue would only be slower."""
    with db.connect(autocommit=True) as conn:
        conn.execute("select count(outbox.enqueue(topic => 'a', payload => '1')) from generate_series(1, 6000)")
        time.sleep(0.6)
        assert len(list(deliveries(conn))) == 6000
        assert conn.execute("select pg_stat_get_tuples_inserted('outbox.queue'::regclass)").fetchone()[0] == 0


@pytest.mark.parametrize("other", ["topic => 'b'", "topic => 'a', tenant_id => '00000000-0000-4000-8000-000000000002'"])
def test_m18_m20_a_flood_does_not_hold_others_back_from_claims(db, other):
    """Who claims admits from the log first: in bulk while it is flooded, so that the others wait for a few claims, not for hundreds."""
    with db.connect(autocommit=True) as conn:
        tenant = ", tenant_id => '00000000-0000-4000-8000-000000000001'" if "tenant" in other else ""
        conn.execute("select count(outbox.enqueue(topic => 'a', payload => '1'%s)) from generate_series(1, 40000)" % tenant)
        (late,) = conn.execute("select id from outbox.enqueue(%s, payload => '1')" % other).fetchone()
        time.sleep(0.6)
        for claims in range(1, 80):
            time.sleep(0.02)  # tenants have their turn twice a second
            rows = conn.execute("select id, token from outbox.claim('w', 10)").fetchall()
            assert len(rows) == 10
            conn.execute("select outbox.ack(%s::uuid[], %s::bigint[])", ([row[0] for row in rows], [row[1] for row in rows]))
            if late in [row[0] for row in rows]:
                break
        assert claims <= 50, "500 a claim would take 80"


def test_m20_without_others_a_claim_admits_little(db):
    """A flood of the only topic there is comes as it is needed: a claim stays short."""
    with db.connect(autocommit=True) as conn:
        conn.execute("select count(outbox.enqueue(topic => 'a', payload => '1')) from generate_series(1, 6000)")
        time.sleep(0.6)
        assert conn.execute("select count(*) from outbox.claim('w', 10)").fetchone() == (10,)
        assert conn.execute("select count(*) from outbox.queue").fetchone() == (500,)
