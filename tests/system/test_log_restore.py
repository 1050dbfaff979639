"""N7, N2, S2: a dump in the middle of a storm is restored into a server that is far behind, and later into the same, now ahead."""
import os
import sys

import psycopg
import pytest

sys.path.insert(0, os.path.join(os.path.dirname(os.path.dirname(os.path.abspath(__file__))), "prove"))

from support import database  # noqa: E402
from support.pgserver import PgServer  # noqa: E402
from support.relay import Relay  # noqa: E402
import log_restore  # noqa: E402
import log_storm  # noqa: E402


@pytest.fixture
def other_server():
    """Its transaction numbers are far behind. A restore needs the roles."""
    with PgServer() as server:
        database.create_template(server)
        yield server


def test_n7_n2_a_dump_in_the_middle_of_a_storm(db, other_server, tmp_path):
    log_restore.burn(db, 3000)
    storm = log_storm.Storm(db.server, db, str(tmp_path), producers=3, takers=3, workers=1, seed=3)
    path = str(tmp_path / "dump")
    try:
        storm.run(seconds=2, trouble=0)
        log_restore.dump(db, path)
    finally:
        storm.close()
    for name in ("behind", "ahead"):  # the first leaves the numbers ahead of those of the dump
        target = database.create_database(other_server, name)
        log_restore.restore(target, path)
        found = log_restore.prove(target)
        assert found["wanted"] > 40 and found["behind"] == (name == "behind"), found
        assert log_restore.bad(found) == {}, found


@pytest.fixture
def conn(db):
    with db.connect(autocommit=True) as conn:
        yield conn


@pytest.mark.parametrize("window", [False, True], ids=["drained", "window"])
@pytest.mark.parametrize("ahead", [1000000, 200], ids=["behind", "caught-up"])
def test_n7_n2_m20_a_restored_log_is_noticed_when_nothing_in_it_waits(db, conn, tmp_path, ahead, window):
    """Of its own numbers it is true that nothing waits, or only what is behind an open window. Messages enqueued since have lower
    ones. Views show them, a take and a claim refuse, a relay delivers them: also when our numbers have passed the old ones."""
    log_restore.enqueue(conn)
    log_restore.drain(conn)
    if window:
        log_restore.enqueue(conn, "k")
        assert conn.execute("SELECT size FROM outbox.take('w', 10, '1 h', 1)").fetchone() == (1,)
        log_restore.enqueue(conn, "k")
    log_restore.put_ahead(conn, ahead)
    log_restore.enqueue(conn)
    log_restore.enqueue(conn, "k")
    if ahead < 1000:
        log_restore.burn(db, ahead)
    assert conn.execute("SELECT (SELECT sum(pending) FROM outbox.status), (SELECT sum(processing) FROM outbox.status), "
                        "(SELECT pending FROM outbox.gauges() LIMIT 1)").fetchone() == (2 + window, window, 2 + window)
    assert conn.execute("SELECT count(*) FROM outbox.queued").fetchone() == (len(log_restore.undelivered(conn)),)
    for call in ("take('w', 10, '30 s', 2)", "claim('w', 10)"):
        with pytest.raises(psycopg.Error) as error:
            conn.execute("SELECT outbox." + call)
        assert error.value.sqlstate == "OB009"
    relay = Relay(tmp_path, db.url(), {"out": {"kind": "null"}}, [{"sink": "out"}])
    relay.until_empty()
    assert log_restore.undelivered(conn) == set() and not relay.logged("level=error")
