"""N2, N7, S2, V8: some orders of the steps of sessions that use the log; `make prove` plays many. Where a guard is taken out, it shows."""
import os
import sys

import pytest

sys.path.insert(0, os.path.join(os.path.dirname(os.path.dirname(os.path.abspath(__file__))), "prove"))

import log_mutants  # noqa: E402
import log_orders  # noqa: E402


def test_n2_n7_every_order_is_good(db):
    bad = {}
    for scenario in log_orders.SCENARIOS:
        wrong = log_orders.explore(db, scenario, 4)[1]
        if wrong:
            bad[scenario] = wrong
    assert not bad


@pytest.mark.parametrize("mutant, scenario", [("stragglers", "X1"), ("left_keys", "B")])
def test_n2_n7_without_a_guard_it_shows(db, mutant, scenario):
    log_mutants.plant(db, mutant)
    assert log_orders.explore(db, scenario, 100, until_red=True)[1]
