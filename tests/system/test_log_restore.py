"""N7, N2, S2: a dump in the middle of a storm is restored into a server that is far behind, and later into the same, now ahead."""
import os
import sys

import pytest

sys.path.insert(0, os.path.join(os.path.dirname(os.path.dirname(os.path.abspath(__file__))), "prove"))

from support import database  # noqa: E402
from support.pgserver import PgServer  # noqa: E402
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
        assert log_restore.clean(found), found
