"""Words of receivers that a store cannot keep as they are. An outcome is settled all the same, or the relay would ask for
ever, and with it all others of its batch would wait.

Proves: S7 (what was said is on record, as near as can be), N4 (no receiver stops the relay).
"""
import pytest

from support.database import Database, drop_database
from support.relay import Relay
from support.shop import PgShop


def make(tmp_path, shop, sinks, routes):
    return Relay(tmp_path, shop.url, sinks, routes, relay={"control_every": "100ms"})


def test_output_that_is_too_deep(pg_shop, tmp_path):
    """S7: JSON that the server gives up on is kept as a text."""
    relay = make(tmp_path, pg_shop, {"out": {"kind": "stub", "output": "${DEEP}"}}, [{"sink": "out"}])
    pg_shop.enqueue(3)
    relay.until_empty(DEEP="[" * 30000 + "]" * 30000)
    assert pg_shop.states() == {"delivered": 3}


@pytest.fixture
def latin1_shop(pg_server):
    pg_server.psql("CREATE DATABASE latin1 ENCODING 'LATIN1' LOCALE 'C' TEMPLATE template0")
    db = Database(pg_server, "latin1")
    db.cli("migrate")
    yield PgShop(db)
    drop_database(db)


def test_words_that_the_database_has_no_letters_for(latin1_shop, tmp_path):
    """S7: a database in LATIN1, and a receiver that complains in Greek."""
    program = ["/bin/sh", "-c", "echo 'na\u00efve \u03b5\u03bb' >&2; exit 65"]
    relay = make(tmp_path, latin1_shop, {"out": {"kind": "exec", "command": program}}, [{"sink": "out"}])
    (sent,) = latin1_shop.enqueue()
    relay.until_empty()
    status, error = latin1_shop.message(sent.id, "status", "last_error")
    assert status == "dead" and error.startswith("na") and "ve" in error
