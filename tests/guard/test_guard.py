"""The hot paths do no more work than they did: counts beside tests/guard/expected.json, with a tolerance; no times.

Proves: N2, N4 (what an enqueue and a delivery cost). After a change that is meant: tools/guard --accept, and commit the file.
"""
import os
import shutil

import pytest

from support import guard

HOW = "if this is meant: tools/guard --accept, and say in the commit why"


@pytest.fixture(scope="module")
def pg_figures(tmp_path_factory):
    return guard.postgres(str(tmp_path_factory.mktemp("guard")))


def check(group, count):
    if guard.unlike(group):
        pytest.skip(guard.unlike(group))
    figures = count()
    lines = guard.differences(group, guard.read_expected()[group], figures)
    assert not lines, "\n".join(lines + [HOW])


@pytest.mark.skipif(not shutil.which("valgrind"), reason="valgrind is not installed")
def test_core(tmp_path):
    """N4: instructions and allocations of a message on its way through the core."""
    check("core", lambda: guard.core(str(tmp_path)))


@pytest.mark.skipif(not os.path.exists(os.path.join(guard.BUILD, "tests", "guard", "sqlite_path")), reason="no SQLite store")
def test_sqlite(tmp_path):
    """N2 N4: steps of SQLite's virtual machine and pages written, per message."""
    check("sqlite", lambda: guard.sqlite(str(tmp_path)))


@pytest.mark.parametrize("group", ("pg_enqueue", "pg_log", "pg_queue", "pg_relay"))
def test_postgres(pg_figures, group):
    """N2 N4: WAL per message, buffers and statements per batch, round trips of a relay."""
    check(group, lambda: pg_figures[group])


def test_more_work_is_told():
    """The guard's own test: what is larger, smaller, new or gone is named; what is within the tolerance is not."""
    expected = {"wal": 100.0, "buffers": 10.0, "gone": 1.0, "none": 0.0}
    figures = {"wal": 121.0, "buffers": 10.9, "fresh": 2.0, "none": 0.0}
    assert guard.differences("pg_log", expected, figures) == [
        "pg_log.fresh: expected None, counted 2.0", "pg_log.gone: expected 1.0, counted None",
        "pg_log.wal: expected 100.0, counted 121.0 (+21 %)"]
    assert guard.differences("pg_log", {"wal": 100.0}, {"wal": 80.0}) != []
    assert guard.differences("pg_log", {"take_statements": 12.0}, {"take_statements": 13.0}) != []
    assert guard.differences("pg_relay", {"trips": 6.0}, {"trips": 3.0}) == []
    assert guard.differences("pg_relay", {"trips": 6.0}, {"trips": 30.0}) != []
    assert guard.differences("core", {"allocations": 1.0}, {"allocations": 2.0}) != []
