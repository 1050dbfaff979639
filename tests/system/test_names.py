"""Stores and brokers by their names, with name servers that answer and such that do not.

Proves: S10 (one that hangs is in nobody else's way), S11 (nothing takes longer than it may), M15 (the relay ends in time).
"""
import time

import pytest

from support.database import run_cli
from support.names import names
from support.relay import Relay, read_ledger
from support.shop import PgShop, SqliteShop
from support.sqlite_file import Outbox
from support.under import PATIENCE


@pytest.fixture
def env(tmp_path):
    return names(tmp_path)


def sink(ledger):
    return {"out": {"kind": "stub", "ledger": str(ledger)}}


def test_a_store_whose_name_is_not_answered_stops_nobody(tmp_path, env):
    """S10, M15: the healthy store's messages are delivered, and the relay ends in time."""
    good = SqliteShop(Outbox.create(tmp_path / "good.db"))
    stores = {"dead": {"url": "postgresql://u@db.hangs.test/d"}, "good": {"url": good.url}}
    relay = Relay(tmp_path, stores, sink(tmp_path / "ledger"), [{"sink": "out"}], relay={"grace": "1s"}, env=env)
    relay.start()
    try:
        for round_ in range(1, 4):
            good.enqueue(10)
            good.wait(delivered=10 * round_, timeout=15)
        began = time.monotonic()
        relay.stop(timeout=20)
        assert time.monotonic() - began < 10 * PATIENCE
    finally:
        relay.kill()
    assert len(read_ledger(tmp_path / "ledger")) == 30


@pytest.mark.parametrize("hosts", ["db.here.test", "gone.invalid,db.here.test", "db.hangs.test,db.here.test"])
def test_a_name_becomes_an_address(db, tmp_path, env, hosts):
    """S11: of several hosts, one that has no address is passed over; one whose name is not answered too."""
    port = db.server.port
    url = "postgresql://postgres@%s/%s" % (",".join("%s:%d" % (host, port) for host in hosts.split(",")), db.name)
    shop = PgShop(db)
    shop.enqueue(3)
    run_cli("status", "--store", url, env=env)
    relay = Relay(tmp_path, url, sink(tmp_path / "ledger"), [{"sink": "out"}], env=env)
    with relay.running():
        shop.wait(delivered=3)
    assert "doorbell disconnected" not in relay.log()


@pytest.mark.parametrize("way", ["environment", "service", "hostaddr"])
def test_the_host_is_read_as_libpq_reads_it(db, tmp_path, env, way):
    """S11: from the environment, a service file, or beside an address."""
    port, conninfo = db.server.port, "user=postgres dbname=%s" % db.name
    if way == "environment":
        env = {**env, "PGHOST": "db.here.test", "PGPORT": str(port)}
    elif way == "service":
        (tmp_path / "services").write_text("[shop]\nhost=db.here.test\nport=%d\n" % port)
        env = {**env, "PGSERVICEFILE": str(tmp_path / "services")}
        conninfo += " service=shop"
    else:
        conninfo += " host=db.hangs.test hostaddr=127.0.0.1 port=%d" % port
    run_cli("status", "--store", conninfo, env=env)


def test_a_command_says_which_name_has_no_address(env):
    """S11, and an error that names the host."""
    done = run_cli("status", "--store", "postgresql://u@nowhere.invalid/d", check=False, env=env)
    assert done.returncode != 0 and 'host name "nowhere.invalid"' in done.stderr
    began = time.monotonic()
    done = run_cli("status", "--store", "postgresql://u@db.hangs.test/d?connect_timeout=2", check=False, env=env)
    assert done.returncode != 0 and 'host name "db.hangs.test" to address: no answer in time' in done.stderr
    assert time.monotonic() - began < 20 * PATIENCE
