"""Fixtures of the Python tests.

    def test_something(db):            # M1: a fresh, migrated database
        with db.connect() as conn: ...

`pg_server` is one private PostgreSQL for the whole session; `own_pg_server` is for tests that stop, crash or reconfigure
it. On a failure the end of the server's log is part of the report.
"""
import itertools
import os
import sys

import pytest

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))

from support import database  # noqa: E402
from support.pgserver import PgServer  # noqa: E402
from support.shop import PgShop, SqliteShop  # noqa: E402
from support.sqlite_file import Outbox  # noqa: E402

_numbers = itertools.count(1)


@pytest.fixture(scope="session")
def pg_server():
    with PgServer() as server:
        yield server


@pytest.fixture(scope="session")
def pg_template(pg_server):
    return database.create_template(pg_server)


@pytest.fixture
def empty_db(pg_server):
    """A database without an outbox in it."""
    db = database.create_database(pg_server, "t%d" % next(_numbers))
    yield db
    database.drop_database(db)


@pytest.fixture
def db(pg_server, pg_template):
    """A database with a fresh outbox in it."""
    db = database.create_database(pg_server, "t%d" % next(_numbers), pg_template.name)
    yield db
    database.drop_database(db)


@pytest.fixture
def own_pg_server():
    """A server of the test's own, with fsync, to be crashed at will."""
    with PgServer(fsync=True) as server:
        yield server


@pytest.fixture(params=["postgresql", "sqlite"])
def shop(request, tmp_path):
    """A store for the relay: a test that takes it runs on both kinds."""
    if request.param == "postgresql":
        return PgShop(request.getfixturevalue("db"))
    return SqliteShop(Outbox.create(tmp_path / "shop.db"))


@pytest.fixture
def pg_shop(db):
    return PgShop(db)


@pytest.hookimpl(hookwrapper=True)
def pytest_runtest_makereport(item):
    outcome = yield
    report = outcome.get_result()
    if not report.failed:
        return
    for name in ("own_pg_server", "pg_server"):
        server = getattr(item, "funcargs", {}).get(name)
        if server and hasattr(report.longrepr, "addsection"):
            tail = "\n".join(server.read_log().splitlines()[-40:])
            report.longrepr.addsection("the end of the log of %s" % name, tail)
