"""N2, N7, S2, S14, M1, V8, V10: a short storm over the log; the long one is `make prove`."""
import os
import sys

sys.path.insert(0, os.path.join(os.path.dirname(os.path.dirname(os.path.abspath(__file__))), "prove"))

from support import database  # noqa: E402
import log_storm  # noqa: E402


def test_n7_n2_s2_nothing_lost_reordered_or_invented_by_the_log(own_pg_server, tmp_path):
    db = database.create_database(own_pg_server, "storm")
    db.cli("migrate")
    storm = log_storm.Storm(own_pg_server, db, str(tmp_path), seed=7)
    try:
        found = storm.run(seconds=10, restarts=1).end().check()
    finally:
        storm.close()
    assert found["messages"] > 100 and found["window-ok"] > 20, found
    assert log_storm.clean(found), dict(found)
