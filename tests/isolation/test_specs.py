"""Every .spec file of this folder, played on a fresh outbox and compared with expected/. Each spec names the requirements
it proves. They are about the queue; for the log, tests/prove/log_orders.py drives sessions step by step.

Proves: what the specs name.
"""
import glob
import os

import pytest

from support import isolation

SPECS = sorted(glob.glob(os.path.join(os.path.dirname(os.path.abspath(__file__)), "*.spec")))


@pytest.mark.parametrize("spec", SPECS, ids=lambda path: os.path.basename(path))
def test_spec(db, spec):
    db.sql("SELECT outbox.configure('*', 'lane', 'queue')")
    isolation.check(db, spec)
