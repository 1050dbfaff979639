"""A relay beside things that stand still: locks in the database that nobody gives back, leftovers of the configuration
before, more topics than anybody lists.

Proves: M15 (it ends, and reloads, in bounded time), N2 (order, across a reload that could not settle), M21 (every reload
counts), T5 (operators are heard however many topics there are).
"""
import signal
import time

import pytest

from support.relay import Relay, read_ledger, wait_for


@pytest.fixture
def ledger(tmp_path):
    return tmp_path / "ledger"


def make(tmp_path, shop, ledger, relay=None, **options):
    sink = {"kind": "stub", "ledger": str(ledger), "retry": {"base": "10ms", "cap": "40ms"}, **options}
    return Relay(tmp_path, shop.url, {"out": sink}, [{"sink": "out"}], relay={"control_every": "100ms", **(relay or {})})


def waits_for_lock(shop):
    """Sessions of the relay that look after the store, and wait for a lock."""
    return shop.sql("SELECT count(*) FROM pg_stat_activity WHERE application_name = 'outbox maintenance'"
                    " AND wait_event_type = 'Lock'")[0][0]


@pytest.mark.parametrize("way", ["end", "reload"])
def test_a_lock_on_what_operators_write_holds_nothing_up(pg_shop, tmp_path, ledger, way):
    """M15: an administrator's session holds a table that relays read every few seconds. Deliveries go on, and so do ends
    and reloads."""
    relay = make(tmp_path, pg_shop, ledger, relay={"grace": "1s"})
    relay.start()
    lock = pg_shop.connect()
    try:
        pg_shop.enqueue(3)
        pg_shop.wait(delivered=3)
        lock.execute("LOCK TABLE outbox.tuning IN ACCESS EXCLUSIVE MODE")
        wait_for(lambda: waits_for_lock(pg_shop) == 1)
        pg_shop.enqueue(2)
        pg_shop.wait(delivered=5)
        began = time.monotonic()
        if way == "reload":
            relay.signal(signal.SIGHUP)
            wait_for(lambda: relay.logged("msg=reloaded"), timeout=10)
            lock.rollback()
            pg_shop.enqueue(2)
            pg_shop.wait(delivered=7)
        relay.stop(timeout=10)
        assert time.monotonic() - began < 10
    finally:
        lock.close()
        relay.kill()
    assert len(read_ledger(ledger)) == (7 if way == "reload" else 5)


def test_a_reload_does_not_pass_what_it_left_behind(pg_shop, tmp_path, ledger):
    """N2: a message was out when the grace period ended, and its outcome could not be settled. What follows it in its key
    waits for its lease, also under the new configuration."""
    relay = make(tmp_path, pg_shop, ledger, relay={"grace": "100ms", "lease": "60s"}, obey_payload=True)
    relay.start()
    lock = pg_shop.connect()
    try:
        (first,) = pg_shop.enqueue(keys=("k",), payload={"stub": "silent"})
        wait_for(lambda: pg_shop.states() == {"processing": 1})
        lock.execute("SELECT FROM outbox.queue FOR UPDATE")
        relay.signal(signal.SIGHUP)
        wait_for(lambda: relay.logged("msg=reloaded"))
        pg_shop.enqueue(keys=("k",))
        (free,) = pg_shop.enqueue()
        wait_for(lambda: len(read_ledger(ledger)) > 0)
        wait_for(lambda: relay.logged("msg=delivered"))
        assert pg_shop.message(first.id, "status") == "processing"
        assert [entry["id"] for entry in read_ledger(ledger)] == [free.id]
    finally:
        lock.close()
        relay.kill()


def test_more_topics_than_anybody_lists(pg_shop, tmp_path, ledger):
    """T5: a topic for every customer. The list of them helps claims; what does not fit into it is claimed all the same."""
    pg_shop.sql("INSERT INTO outbox.lane (id, namespace, topic) SELECT n, 'default', 't' || n"
                " FROM generate_series(1, 80000) n RETURNING 1")
    relay = make(tmp_path, pg_shop, ledger)
    with relay.running():
        pg_shop.enqueue(2)
        pg_shop.wait(delivered=2)


def test_a_reload_soon_after_a_reload(shop, tmp_path, ledger):
    """M21: the file was written once more while what was out at the first reload is not finished."""
    relay = make(tmp_path, shop, ledger, relay={"grace": "20s"}, delay="1s")
    other = tmp_path / "other"
    with relay.running():
        wait_for(relay.started)
        shop.enqueue()
        wait_for(lambda: relay.logged("msg=sent"))
        relay.signal(signal.SIGHUP)
        wait_for(lambda: relay.logged("msg=reloaded"))
        relay.config["sinks"]["out"] = {"kind": "stub", "ledger": str(other)}
        relay.write()
        relay.signal(signal.SIGHUP)
        wait_for(lambda: relay.log().count("msg=reloaded") == 2)
        shop.enqueue()
        shop.wait(delivered=2)
    assert (len(read_ledger(ledger)), len(read_ledger(other))) == (1, 1)
