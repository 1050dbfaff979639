"""N2, N7, M1, S2, S14, S18, V8, V10: a short storm of kills; the long one is `make prove`."""
import os
import sys

sys.path.insert(0, os.path.join(os.path.dirname(os.path.dirname(os.path.abspath(__file__))), "prove"))

from support import database  # noqa: E402
import storm  # noqa: E402


def test_n7_n2_s2_nothing_lost_reordered_or_invented_under_kills(own_pg_server, tmp_path):
    db = database.create_database(own_pg_server, "storm")
    db.cli("migrate")
    one = storm.Storm(own_pg_server, db, str(tmp_path), seed=7).run(kills=60, crashes=2, seconds=12)
    one.drain()
    found = one.check()
    assert found["committed"] > 100, found
    assert all(found[name] == 0 for name in storm.VERDICT), found
