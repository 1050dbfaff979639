"""Order per key in windows of the log, and settles that meet.

Proves: N2 S2 (order per key), N7 V8 (nothing twice on record).
"""
import threading

import psycopg
import pytest

from support.relay import wait_for


@pytest.fixture
def conn(db):
    with db.connect(autocommit=True) as conn:
        conn.execute("select outbox.configure('*', 'lane', 'log')")
        yield conn


def take(conn, nonce, limit=100):
    """A window: (shard, id, nonce) and the ids of its messages."""
    shard, ident, size = conn.execute("select shard, id, size from outbox.take('w', %s, '30 s', %s)", (limit, nonce)).fetchone()
    ids = [row[0] for row in conn.execute("select id from outbox.window_messages where nonce = %s", (nonce,))]
    assert len(ids) == size
    return (shard, ident, nonce), ids


def settle(conn, window, ids, outcomes, again=False):
    return conn.execute("select ord, result from outbox.settle_window(array[%s::int], array[%s::bigint], array[%s::bigint], array[0], %s::int[], "
                        "%s::uuid[], %s::int[], again => %s)", (*window, [1] * len(ids), ids, outcomes, again)).fetchall()


def test_a_key_waits_behind_its_message_of_a_paused_topic(conn):
    """N2: where a key has messages of several topics, one that is left out of the window keeps the others of its key out."""
    conn.execute("select outbox.configure('across', 'order_scope', 'namespace')")
    for topic, key in (("a", "k"), ("b", "k"), ("a", "k"), ("b", "other")):
        conn.execute("select outbox.enqueue(%s, '1', key => %s, namespace => 'across')", (topic, key))
    conn.execute("select outbox.pause('across', 'a')")
    taken = []
    for nonce in (1, 2):
        taken += take(conn, nonce)[1]
    assert conn.execute("select key from outbox.message where id = any (%s)", (taken,)).fetchall() == [("other",)]
    assert conn.execute("select seq from outbox.queue order by seq").fetchall() == [(1,), (2,), (3,)]
    assert conn.execute("select count(*) from outbox.claim('w', 10, run => 10)").fetchone() == (0,)
    conn.execute("select outbox.resume('across', 'a')")
    assert conn.execute("select seq from outbox.claim('w', 10, run => 10)").fetchall() == [(1,), (2,), (3,)]


@pytest.mark.parametrize("outcome", [1, 2, None])
def test_a_repeated_settle_waits_for_the_first(db, conn, outcome):
    """V8: the connection of the first was cut, but it still runs. What it settles counts once."""
    conn.execute("select outbox.enqueue('t', '1'), outbox.enqueue('t', '2'), outbox.enqueue('t', '3')")
    window, ids = take(conn, 1)
    answers = []
    with db.connect() as first, db.connect(autocommit=True, application_name="repeats") as second:
        settle(first, window, ids[:2], [outcome] * 2)
        repeats = threading.Thread(target=lambda: answers.append(settle(second, window, ids, [outcome] * 3, again=True)))
        repeats.start()
        wait_for(lambda: conn.execute("select count(*) from pg_stat_activity where application_name = 'repeats' "
                                      "and wait_event_type = 'Lock'").fetchone() == (1,), what="the second to wait")
        first.commit()
        repeats.join()
    assert [answer for answer in answers[0] if answer[1] != "ok"] == []
    assert conn.execute("select open, remaining from outbox.log_window where nonce = 1").fetchone() == (False, 0)
    assert conn.execute("select count(*) from outbox.queue").fetchone() == (0 if outcome == 1 else 3,)
    assert conn.execute("select count(*) from outbox.attempt").fetchone() == (0 if outcome is None else 3,)


@pytest.mark.parametrize("run", [1, 10])
def test_a_delay_behind_another_of_its_key(conn, run):
    """N2 Y7: admitted together with the one before it, it still waits for its time."""
    conn.execute("select outbox.enqueue('t', '1', key => 'k'), outbox.enqueue('t', '2', key => 'k', deliver_after => now() + interval '1 hour')")
    assert conn.execute("select seq from outbox.claim('w', 10, run => %s)", (run,)).fetchall() == [(1,)]
    assert conn.execute("select outbox.ack(array[id], array[1::bigint]) from outbox.message where seq = 1").fetchall()
    assert conn.execute("select seq from outbox.claim('w', 10, run => %s)", (run,)).fetchall() == []


def test_a_transaction_that_runs_while_all_is_quiet(db, conn):
    """N7: its message is found when it commits, also if nothing else happens. While it runs, every look finds nothing to do."""
    for number in range(1, 6):
        with db.connect() as producer:
            producer.execute("select outbox.enqueue('t', '1')")
            assert take(conn, number * 10)[1] == []
            producer.commit()
        window, ids = take(conn, number * 10 + 1)
        assert len(ids) == 1, "round %d" % number
        settle(conn, window, ids, [1])
        assert take(conn, number * 10 + 2)[1] == []


def test_y4_a_hook_hears_of_a_window(db, conn):
    """Y4: a hook is told of what was delivered from a window, with what the sink returned."""
    conn.execute("create schema app; create table app.told (id uuid, event text); grant usage on schema app to outbox_hooks")
    conn.execute("create function app.hear(events jsonb) returns void language sql security definer set search_path = pg_catalog, pg_temp as $$ "
                 "insert into app.told select (e ->> 'id')::uuid, e ->> 'event' from jsonb_array_elements(events) e $$")
    conn.execute("grant execute on function app.hear(jsonb) to outbox_hooks")
    conn.execute("select outbox.hook('app.hear(jsonb)')")
    for n in range(20):
        conn.execute("select outbox.enqueue('t', %s::text::jsonb)", (n,))
    window, ids = take(conn, 1)
    assert settle(conn, window, ids[:2], [1, 1]) == []
    assert settle(conn, window, ids[2:], [1] * 17 + [2]) == []
    told = conn.execute("select event, count(*) from app.told group by 1 order by 1").fetchall()
    assert told == [("delivered", 19), ("retry", 1)]


@pytest.mark.parametrize("order", ["side by side", "mixed", "windows turned round"])
def test_v8_several_windows_in_one_settle(conn, order):
    """V8 S2: each message is on record once, with its own reference; what is of a window of somebody else is lost, and only that."""
    for i in range(60):
        conn.execute("select outbox.enqueue('t', '1')")
    windows = [take(conn, nonce, 20) for nonce in (1, 2, 3)]
    (shards, idents, nonces), ids = zip(*(window for window, _ in windows)), [ids for _, ids in windows]
    items = [(n + 1, i, "ref-%s" % i) for n in range(3) for i in ids[n][:18]]
    nonces = (1, 99, 3)
    if order == "mixed":
        items.sort(key=lambda item: item[1].bytes[::-1])
    elif order == "windows turned round":
        shards, idents, nonces = shards[::-1], idents[::-1], nonces[::-1]
        items = [(4 - w, i, ref) for w, i, ref in items]
    bad = conn.execute("select ord, result from outbox.settle_window(%s::int[], %s::bigint[], %s::bigint[], '{0,0,0}', %s::int[], %s::uuid[], %s::int[], "
                       "refs => %s::text[])", (list(shards), list(idents), list(nonces), [w for w, _, _ in items], [i for _, i, _ in items],
                                               [1] * 54, [ref for _, _, ref in items])).fetchall()
    assert bad == [(n + 1, "lost") for n, (w, i, _) in enumerate(items) if w == 2]
    kept = dict(conn.execute("select message_id, reference from outbox.attempts where outcome = 'delivered'").fetchall())
    assert kept == {i: ref for w, i, ref in items if w != 2}
    assert conn.execute("select remaining, open from outbox.log_window where size > 0 order by id").fetchall() == [(2, True), (20, True), (2, True)]
    with pytest.raises(psycopg.Error, match="fewer messages than were settled"):
        settle(conn, windows[0][0], ids[0][:3], [1] * 3)
    assert settle(conn, windows[0][0], ids[0][18:], [1] * 2) == []
    assert conn.execute("select count(*) from outbox.log_window where open").fetchone() == (2,)


def test_n2_a_key_that_waits_does_not_make_windows_small(conn):
    """N2 N4: no more than a part of a window is of one key. What goes to the queue, behind a failed message, is of no window: a page of it at once."""
    conn.execute("select count(*) from generate_series(1, 400) i, outbox.enqueue('t', to_jsonb(i), key => 'bad')")
    window, ids = take(conn, 1)
    assert 0 < len(ids) < 50
    settle(conn, window, ids, [2] + [8] * (len(ids) - 1))
    take(conn, 2)
    assert conn.execute("select count(*) from outbox.queue").fetchone()[0] >= len(ids) + 100


def test_v8_a_message_named_twice_is_refused(conn):
    """V8: otherwise the window would be closed while another of its messages is not settled."""
    conn.execute("select count(outbox.enqueue('t', '1')) from generate_series(1, 20)")
    window, ids = take(conn, 1)
    with pytest.raises(psycopg.Error) as raised:
        settle(conn, window, [ids[0], *ids[:19]], [1] * 20)
    assert raised.value.sqlstate == "OB001"
    assert settle(conn, window, ids, [1] * 20) == []


@pytest.mark.parametrize("references", [None, ["r"] * 20])
def test_a_latency_that_nobody_knows(conn, references):
    """N7: of messages that share an attempt row, one without a latency has none on record, and the others theirs."""
    conn.execute("select outbox.enqueue('t', to_jsonb(i)) from generate_series(1, 20) i")
    window, ids = take(conn, 1)
    conn.execute("select outbox.settle_window(array[%s::int], array[%s::bigint], array[%s::bigint], array[0], %s::int[], %s::uuid[], %s::int[], "
                 "refs => %s::text[], latencies => %s::bigint[])", (*window, [1] * 20, ids, [1] * 20, references, [None] + [7000] * 19))
    assert conn.execute("select message_id, latency_ms from outbox.attempts where latency_ms is distinct from 7").fetchall() == [(ids[0], None)]
