"""The relay as a process: what it delivers, in which order, how often, and how it starts, changes and stops.

Proves: V7 (states), V9 M12 T3 (retries, then dead), V12 (log lines), V17 (disabled, then drained), M1 M4 (rolled back and
duplicate: never delivered), M15 (finishes or gives back what it holds), N2 (order), N9 (two stores in one process),
S9 (polling alone drives it), T5 (tuned while it runs), Y9 (unrouted: waits visibly, or dead).
"""
import json
import os
import signal
import time

import pytest

from support.relay import Relay, read_ledger, wait_for
from support.shop import Ledger, PgShop, SqliteShop
from support.sqlite_file import Outbox

FAST = {"retry": {"base": "10ms", "cap": "40ms"}}


@pytest.fixture
def ledger(tmp_path):
    return tmp_path / "ledger"


def stub(ledger, **more):
    return {"kind": "stub", "ledger": str(ledger), **FAST, **more}


def make(tmp_path, shop, ledger, routes=None, relay=None, admin=False, name="relay", sinks=None, **options):
    relay = {"control_every": "100ms", **(relay or {})}
    return Relay(tmp_path, shop.url, sinks or {"out": stub(ledger, **options)}, routes or [{"sink": "out"}], name=name,
                 relay=relay, admin=admin)


# ---- deliveries ----


def test_delivers_in_order_per_key(shop, tmp_path, ledger):
    """V7 N2: of each key in order, all of it once; what comes while it runs, too."""
    relay = make(tmp_path, shop, ledger, delay="1ms")
    sent = shop.enqueue(100, keys=("a", "b", "c", None))
    with relay.running():
        wait_for(lambda: len(read_ledger(ledger)) > 20)
        sent += shop.enqueue(100, keys=("c", None, "a", "b"))
        shop.wait(delivered=200)
    Ledger(sent, read_ledger(ledger)).check()
    assert set(map(tuple, shop.all_attempts().values())) == {((1, "delivered"),)}


def test_runs_of_a_key_stay_in_order(shop, tmp_path, ledger):
    """N2: handed over in runs; in the middle of each there is a message that needs two more tries."""
    relay = make(tmp_path, shop, ledger, run=8, obey_payload=True, concurrency=64)
    sent = []
    for _ in range(5):
        sent += shop.enqueue(12, keys=("a", "b", None))
        sent += shop.enqueue(3, keys=("a", "b", None), payload={"stub": "retry*2 accept"})
    relay.until_empty()
    Ledger(sent, read_ledger(ledger)).check()
    assert "retry" in {attempts[0][1] for attempts in shop.all_attempts().values()}


def test_retries_with_backoff_then_delivers(shop, tmp_path, ledger):
    """V9 T3 V12: two failures, each followed by a longer wait, then accepted. The log has every step."""
    relay = make(tmp_path, shop, ledger, script="retry:busy*2 accept", retry={"base": "100ms", "cap": "10s"})
    log = tmp_path / "deliveries"
    relay.config["sinks"]["out"]["log"] = str(log)
    relay.write()
    (sent,) = shop.enqueue(correlation_id="corr-7", subject="order-7")
    relay.until_empty()
    assert shop.attempts(sent.id) == [(1, "retry"), (2, "retry"), (3, "delivered")]
    times = [entry["time_us"] for entry in read_ledger(log)]
    assert 50_000 <= times[1] - times[0] and 100_000 <= times[2] - times[1]
    for step in ("claimed", "sent", "retry", "delivered"):
        line = next(line for line in relay.log().splitlines() if "msg=%s" % step in line and sent.id in line)
        assert "correlation_id=corr-7" in line and "subject=order-7" in line


def test_dead_after_max_attempts(shop, tmp_path, ledger):
    """V9 M12: its attempts are spent, it is dead, and never tried again. Successors of its key go on."""
    relay = make(tmp_path, shop, ledger, script="retry:busy", topics={"fine": "accept"})
    (bad,) = shop.enqueue(keys=("k",), max_attempts=3)
    (good,) = shop.enqueue(keys=("k",), topic="fine")
    relay.until_empty()
    assert shop.attempts(bad.id) == [(1, "retry"), (2, "retry"), (3, "failed")]
    assert shop.message(bad.id, "status", "spent", "dead_reason", "last_code") == ("dead", 3, "attempts", "busy")
    assert [entry["id"] for entry in read_ledger(ledger)] == [good.id]
    assert "msg=dead" in relay.log()


def test_dead_after_the_attempts_of_the_sink(shop, tmp_path, ledger):
    """V9 V11: a sink may allow fewer attempts than the namespace does."""
    relay = make(tmp_path, shop, ledger, obey_payload=True, max_attempts=2)
    (bad,) = shop.enqueue(keys=("k",), payload={"stub": "retry"})
    sent = shop.enqueue(keys=("k",))
    relay.until_empty()
    assert shop.attempts(bad.id) == [(1, "retry"), (2, "failed")]
    assert shop.message(bad.id, "status", "spent", "dead_reason") == ("dead", 2, "attempts")
    Ledger(sent, read_ledger(ledger)).check()


def test_an_inline_command_has_its_dollar_signs(shop, tmp_path, ledger):
    """V11: the shell of an exec sink sees its own $$ and $NAME; ${NAME} is the relay's variable, $${NAME} the shell's."""
    text = 'test $(cut -d" " -f4 /proc/$$/stat) = $PPID && echo ${WHERE} $${OUTBOX_TOPIC} $OUTBOX_TOPIC > ${WHERE}'
    relay = make(tmp_path, shop, ledger)
    relay.config["sinks"]["out"] = {"kind": "exec", "command": ["/bin/sh", "-c", text]}
    relay.write()
    shop.enqueue(topic="orders.paid")
    relay.until_empty(WHERE=str(tmp_path / "said"))
    assert (tmp_path / "said").read_text() == "%s orders.paid orders.paid\n" % (tmp_path / "said")


def test_terminal_is_dead_at_once(shop, tmp_path, ledger):
    """S13: this message is wrong: one attempt."""
    relay = make(tmp_path, shop, ledger, script="terminal:bad_address")
    (sent,) = shop.enqueue()
    relay.until_empty()
    assert shop.attempts(sent.id) == [(1, "failed")]
    assert shop.message(sent.id, "status", "dead_reason", "last_code") == ("dead", "terminal", "bad_address")


def test_rolled_back_and_duplicate_are_never_delivered(shop, tmp_path, ledger):
    """M1 M4: what did not commit is not there; the same dedupe key again is the same message."""
    shop.enqueue(5, commit=False)
    (first,) = shop.enqueue(dedupe_key="one")
    relay = make(tmp_path, shop, ledger)
    relay.until_empty()
    assert shop.enqueue(dedupe_key="one")[0].id == first.id
    relay.until_empty()
    assert [entry["id"] for entry in read_ledger(ledger)] == [first.id]


def test_polling_alone_drives_it(shop, tmp_path, ledger):
    """S9: nobody rings."""
    relay = make(tmp_path, shop, ledger, relay={"poll": "50ms"})
    relay.config["stores"] = {"shop": {"url": relay.config.pop("store"), "wake": "poll"}}
    relay.write()
    with relay.running():
        wait_for(lambda: relay.logged("relay started"))
        shop.enqueue(3)
        shop.wait(delivered=3)


# ---- no route ----


def test_unrouted_waits_visibly(shop, tmp_path, ledger):
    """Y9: no executor: it waits, nothing is spent, and metrics and log tell; a route that comes later takes it."""
    relay = make(tmp_path, shop, ledger, routes=[{"topic": "known", "sink": "out"}], admin=True,
                 relay={"unrouted_delay": "1s"})
    (lone,) = shop.enqueue(topic="unknown")
    shop.enqueue(topic="known")
    with relay.running():
        shop.wait(delivered=1, pending=1)
        wait_for(lambda: relay.metric("outbox_unrouted_topics") == 1)
        wait_for(lambda: relay.logged('msg="topic matches no route: its messages wait" store=default '
                                      'namespace=default topic=unknown'))
        assert shop.message(lone.id, "status", "spent") == ("pending", 0)
        relay.config["routes"].append({"sink": "out"})
        relay.write()
        relay.signal(signal.SIGHUP)
        shop.wait(delivered=2)
        wait_for(lambda: relay.metric("outbox_unrouted_topics") == 0)
    assert shop.attempts(lone.id)[-1][1] == "delivered"


def test_unrouted_dead_by_setting(shop, tmp_path, ledger):
    """Y9: dead at once, with the reason."""
    relay = make(tmp_path, shop, ledger, routes=[{"topic": "known", "sink": "out"}], relay={"unrouted": "dead"})
    (lone,) = shop.enqueue(topic="unknown")
    relay.until_empty()
    assert shop.message(lone.id, "status", "last_code") == ("dead", "unrouted")
    assert shop.attempts(lone.id) == [(1, "failed")]


# ---- the end ----


def test_sigterm_finishes_what_is_out(shop, tmp_path, ledger):
    """M15: what is at the sink is finished and settled; what was only claimed goes back unspent, untold of."""
    relay = make(tmp_path, shop, ledger, delay="700ms", concurrency=4)
    sent = shop.enqueue(40)
    with relay.running():
        wait_for(lambda: relay.log().count("msg=sent") >= 4)
    finished = relay.log().count("msg=sent")
    assert finished < 40 and len(read_ledger(ledger)) == finished
    assert shop.states() == {"delivered": finished, "pending": 40 - finished}
    pending = [message.id for message in sent if shop.message(message.id, "status") == "pending"]
    assert {shop.message(id, "spent", "attempts") for id in pending} == {(0, 1)}
    assert all(shop.attempts(id) == [] for id in pending)
    relay.config["sinks"]["out"]["delay"] = "0"
    relay.write()
    relay.until_empty()
    ended = Ledger(sent, read_ledger(ledger)).check()
    assert {entry["attempt"] for entry in ended.accepted} == {1, 2}


def test_sigterm_gives_up_after_the_grace_period(shop, tmp_path, ledger):
    """M15: a sink that never answers is waited for so long and no longer; its message is interrupted, and costs nothing."""
    relay = make(tmp_path, shop, ledger, script="silent accept", relay={"grace": "300ms"}, concurrency=1)
    out, queued = shop.enqueue(2)
    with relay.running():
        wait_for(lambda: relay.logged("msg=sent"))
        began = time.monotonic()
    assert 0.25 < time.monotonic() - began < 20
    assert [shop.message(id, "status", "spent") for id in (out.id, queued.id)] == [("pending", 0)] * 2
    assert sorted([*shop.attempts(out.id), *shop.attempts(queued.id)]) == [(1, "interrupted")]


def test_second_sigterm_stops_at_once(shop, tmp_path, ledger):
    """M15: an operator in a hurry."""
    relay = make(tmp_path, shop, ledger, script="silent", relay={"grace": "1m"})
    (sent,) = shop.enqueue()
    with relay.running():
        wait_for(lambda: relay.logged("msg=sent"))
        relay.signal(signal.SIGTERM)
        wait_for(lambda: relay.logged("finishing deliveries in flight"))
        began = time.monotonic()
    assert time.monotonic() - began < 20
    assert shop.attempts(sent.id) == [(1, "interrupted")]
    assert shop.message(sent.id, "status", "spent") == ("pending", 0)


def start_by_fifo(relay):
    """A relay that reads its configuration from a FIFO, and has come so far as to wait for it; and that FIFO, to write."""
    relay.path.unlink()
    os.mkfifo(relay.path)
    relay.start()
    return open(relay.path, "w")  # waits for a reader


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_stopped_before_it_started(shop, tmp_path, ledger, number):
    """M15: a signal while it still reads its configuration: a clean end, with words, and nothing was claimed."""
    relay = make(tmp_path, shop, ledger)
    (sent,) = shop.enqueue()
    try:
        with start_by_fifo(relay) as file:
            relay.signal(number)
            json.dump(relay.config, file)
        assert relay.wait() == 0
    finally:
        relay.kill()
    assert "msg=claimed" not in relay.log() and 'msg="relay stopped"' in relay.log()
    assert shop.message(sent.id, "status", "attempts") == ("pending", 0)
    assert read_ledger(ledger) == []


def test_reloaded_before_it_started(shop, tmp_path, ledger):
    """M21: SIGHUP while it still reads its configuration: it reads it again, and delivers by the new one only."""
    relay = make(tmp_path, shop, ledger)
    (sent,) = shop.enqueue()
    old = {**relay.config, "sinks": {"out": stub(tmp_path / "old")}}
    try:
        with start_by_fifo(relay) as file:
            relay.signal(signal.SIGHUP)
            json.dump(old, file)
        wait_for(relay.started)  # the first reader is gone
        with open(relay.path, "w") as file:
            json.dump(relay.config, file)
        shop.wait(delivered=1)
        relay.stop()
    finally:
        relay.kill()
    assert [entry["id"] for entry in read_ledger(ledger)] == [sent.id] and read_ledger(tmp_path / "old") == []


# ---- changes ----


def test_reload_changes_routes(shop, tmp_path, ledger):
    """M21: SIGHUP: what is out finishes under the old configuration, what comes goes by the new one."""
    other = tmp_path / "other"
    relay = make(tmp_path, shop, ledger, admin=True)
    with relay.running():
        shop.enqueue(3)
        shop.wait(delivered=3)
        relay.config["sinks"]["more"] = stub(other)
        relay.config["routes"] = [{"topic": "orders", "sink": "more"}, {"sink": "out"}]
        relay.write()
        relay.signal(signal.SIGHUP)
        wait_for(lambda: relay.logged("msg=reloaded"))
        shop.enqueue(4)
        shop.wait(delivered=7)
        assert relay.metric('outbox_reloads_total{result="ok"') == 2, "the start is the first"
    assert (len(read_ledger(ledger)), len(read_ledger(other))) == (3, 4)


def test_reload_under_load_loses_nothing(shop, tmp_path, ledger):
    """M21 N2: ten reloads while messages flow: all once, in order."""
    relay = make(tmp_path, shop, ledger, delay="2ms", concurrency=8)
    sent = shop.enqueue(300, keys=("a", "b", None))
    with relay.running():
        for turn in range(1, 6):
            wait_for(lambda: len(read_ledger(ledger)) >= turn * 40)
            relay.signal(signal.SIGHUP)
            wait_for(lambda: relay.log().count("msg=reloaded") == turn)
        shop.wait(delivered=300)
    Ledger(sent, read_ledger(ledger)).check()


@pytest.mark.parametrize("wrong", ["sinks: [", '{"sinks": {"out": {"kind": "pigeon"}}, "routes": []}', "",
                                   '{"store": "sqlite:x.db"}', '{"store": "sqlite:x.db", "sinks": {"out": {"kind": "http"}}}'])
def test_bad_configuration_keeps_the_old(shop, tmp_path, ledger, wrong):
    """V11: a reload of nonsense says so, and the relay goes on as it was; also where other commands could use the file."""
    relay = make(tmp_path, shop, ledger, admin=True)
    with relay.running():
        wait_for(lambda: relay.logged("relay started"))
        relay.path.write_text(wrong)
        relay.signal(signal.SIGHUP)
        wait_for(lambda: relay.logged("reload failed: keeping the old configuration"))
        wait_for(lambda: relay.metric("outbox_last_reload_successful") == 0)
        shop.enqueue(2)
        shop.wait(delivered=2)
        assert relay.metric("outbox_up") == 1
        assert relay.metric("outbox_store_reconnects_total") == 0  # V12: the connections are still the first


def test_disabled_gathers_then_drains(shop, tmp_path, ledger):
    """V17 V4: deployed with the worker off, messages gather; enabled, they drain."""
    relay = make(tmp_path, shop, ledger, relay={"enabled": False}, admin=True)
    sent = shop.enqueue(10, keys=("a", None))
    with relay.running():
        wait_for(lambda: relay.logged("claiming stopped"))
        shop.enqueue()
        wait_for(lambda: relay.metric("outbox_up") == 0)
        assert shop.states() == {"pending": 11}
        relay.config["relay"]["enabled"] = True
        relay.write()
        relay.signal(signal.SIGHUP)
        shop.wait(delivered=11)
        wait_for(lambda: relay.metric("outbox_up") == 1)
    Ledger(sent, [e for e in read_ledger(ledger) if e["id"] in {m.id for m in sent}]).check()


def test_enabled_by_tuning(shop, tmp_path, ledger):
    """T5 V17: the same switch in the database, and back."""
    relay = make(tmp_path, shop, ledger, admin=True)
    shop.cli("tune", "enabled", "off")
    shop.enqueue(5)
    with relay.running():
        wait_for(lambda: relay.logged("claiming stopped"))
        wait_for(lambda: relay.metric("outbox_up") == 0)
        assert shop.states() == {"pending": 5}
        shop.cli("tune", "enabled", "on")
        shop.wait(delivered=5)
        wait_for(lambda: relay.metric("outbox_up") == 1)


@pytest.mark.parametrize("what", [["--sink", "out"], ["--topic", "orders"], ["--yes"]])
def test_pause_and_resume(shop, tmp_path, ledger, what):
    """V13: a sink, a topic, everything: nothing of it goes out until it is resumed, nothing is spent."""
    relay = make(tmp_path, shop, ledger, admin=True)
    with relay.running():
        shop.enqueue(2)
        shop.wait(delivered=2)
        shop.cli("pause", *what)
        wait_for(lambda: relay.metric("outbox_paused") == 1)
        sent = shop.enqueue(3)
        rounds = relay.metric("outbox_claims_total")
        if "--sink" not in what:  # the claim itself heeds these: it looks, and finds nothing
            wait_for(lambda: relay.metric("outbox_claims_total") > rounds + 1)
        assert shop.states() == {"delivered": 2, "pending": 3}
        assert {shop.message(m.id, "spent") for m in sent} == {0}
        shop.cli("resume", *[arg for arg in what if arg != "--yes"])
        shop.wait(delivered=5)
    assert len(read_ledger(ledger)) == 5


def test_pause_of_one_sink_leaves_others(shop, tmp_path, ledger):
    """N5: what goes elsewhere goes on, at once."""
    other = tmp_path / "other"
    relay = make(tmp_path, shop, ledger, sinks={"out": stub(ledger), "more": stub(other)},
                 routes=[{"topic": "orders", "sink": "out"}, {"sink": "more"}], admin=True)
    shop.cli("pause", "--sink", "out", "--force")
    with relay.running():
        shop.enqueue(3)
        shop.enqueue(3, topic="mails")
        shop.wait(pending=3, delivered=3)
    assert (len(read_ledger(ledger)), len(read_ledger(other))) == (0, 3)


def test_tuned_while_it_runs(shop, tmp_path, ledger):
    """T5: the rate of a sink comes from the database, without a restart."""
    relay = make(tmp_path, shop, ledger, admin=True)
    with relay.running():
        wait_for(lambda: relay.logged("relay started"))
        shop.cli("tune", "sink.out.rate", "10/s", "--force")
        wait_for(lambda: relay.logged("sink tuned"))
        shop.enqueue(11)
        began = time.monotonic()
        shop.wait(delivered=11)
        assert time.monotonic() - began > 0.8
        shop.cli("tune", "sink.out.rate", "--reset")
        wait_for(lambda: relay.log().count("sink tuned") == 2)


def test_batch_and_poll_tuned_while_it_runs(shop, tmp_path, ledger):
    """T5 S9: with nobody ringing, the poll of the database counts, be it longer or shorter than the configured one."""
    relay = make(tmp_path, shop, ledger, admin=True, relay={"poll": "100ms"})
    relay.config["stores"] = {"shop": {"url": relay.config.pop("store"), "wake": "poll"}}
    relay.write()
    with relay.running():
        wait_for(lambda: relay.logged("claiming started"))
        shop.cli("tune", "poll", "1h")
        wait_for(lambda: relay.logged('msg="pace tuned" batch="as configured" poll=1h'))
        time.sleep(1.2)  # metrics are told once a second
        claims = relay.metric("outbox_claims_total")
        time.sleep(3)
        assert relay.metric("outbox_claims_total") - claims < 10, "the configured poll makes 30"
        shop.cli("tune", "batch", "2")
        wait_for(lambda: relay.logged('msg="pace tuned" batch=2 poll=1h'))
        shop.enqueue(20)
        shop.cli("tune", "poll", "50ms")
        shop.wait(delivered=20)
        wait_for(lambda: relay.metric("outbox_claims_total") - claims >= 10)
        shop.cli("tune", "batch", "--reset")
        shop.cli("tune", "poll", "--reset")
        wait_for(lambda: relay.logged('msg="pace tuned" batch="as configured" poll="as configured"'))


# ---- stores ----


def test_two_stores_in_one_process(db, tmp_path, ledger):
    """N9: one PostgreSQL, one SQLite, the same routes; each message goes back to the store it came from."""
    shops = [PgShop(db), SqliteShop(Outbox.create(tmp_path / "till.db"))]
    relay = Relay(tmp_path, {"shop": {"url": shops[0].url}, "till": {"url": shops[1].url}},
                  {"out": stub(ledger, script="retry accept")}, [{"sink": "out"}])
    sent = [message for shop in shops for message in shop.enqueue(30, keys=("a", "b", None))]
    relay.until_empty()
    assert [shop.states() for shop in shops] == [{"delivered": 30}] * 2
    ended = Ledger(sent, read_ledger(ledger))
    assert (ended.lost(), ended.twice(), ended.strangers()) == ([], [], [])


def test_one_store_down_does_not_stop_the_other(own_pg_server, tmp_path, ledger):
    """N9 N5: the server of one store is away: the other store's messages go on."""
    shop = SqliteShop(Outbox.create(tmp_path / "till.db"))
    url = own_pg_server.url()
    own_pg_server.stop()
    relay = Relay(tmp_path, {"far": {"url": url}, "till": {"url": shop.url}}, {"out": stub(ledger)}, [{"sink": "out"}])
    with relay.running():
        shop.enqueue(5)
        shop.wait(delivered=5)


def test_database_away_at_the_start(own_pg_server, tmp_path, ledger):
    """It says so, tries again, and works when the database comes."""
    from support.database import Database
    db = Database(own_pg_server, "postgres")
    db.cli("migrate")
    shop = PgShop(db)
    shop.enqueue(3)
    own_pg_server.stop()
    relay = make(tmp_path, shop, ledger, admin=True)
    with relay.running():
        wait_for(lambda: relay.logged('level=error msg="store unusable: deliveries suspended, '))
        assert "Connection refused" in relay.log()
        assert relay.metric("outbox_store_connected") == 0
        own_pg_server.start()
        shop.wait(delivered=3, timeout=40)
        wait_for(lambda: relay.metric("outbox_store_connected") == 1)
    assert relay.log().count("store unusable") == 1, "once, not once a try"


def test_schema_missing(empty_db, tmp_path, ledger):
    """It says which command makes it, and works once that was done."""
    shop = PgShop(empty_db)
    relay = make(tmp_path, shop, ledger)
    with relay.running():
        wait_for(lambda: relay.logged("outbox migrate"))
        empty_db.cli("migrate")
        shop.enqueue(2)
        shop.wait(delivered=2, timeout=40)


def test_second_relay_on_a_file_is_refused(tmp_path, ledger):
    """One relay per SQLite file: the second says who has it; it takes over when the first is gone."""
    shop = SqliteShop(Outbox.create(tmp_path / "shop.db"))
    first, second = make(tmp_path, shop, ledger), make(tmp_path, shop, ledger, name="second")
    with first.running():
        shop.enqueue()
        shop.wait(delivered=1)
        second.start()
        try:
            wait_for(lambda: second.logged("another relay") or second.process.poll() is not None)
            assert "another relay" in second.log(), second.log()
            shop.enqueue()
            shop.wait(delivered=2)
        finally:
            second.kill()
    assert len(read_ledger(ledger)) == 2
