"""Every sink has a test for all that can come of a delivery, for a death of the other side, and for order; prints which.
Proves: N3, S13; the table is tests/sink/matrix.tsv, the page docs/sinks-proof.md.
"""
import json

import pytest

from support import matrix
from support.database import run_cli
from support.sinkdrive import needs_sinks

pytestmark = needs_sinks


def test_no_cell_is_empty(record_property, capsys):
    """N3 S13"""
    table = matrix.load()
    assert matrix.faults(table, json.loads(run_cli("version", "--json").stdout)["sinks"]) == []
    text = matrix.as_text(table)
    record_property("show", text)
    with capsys.disabled():
        print("\n" + text)


@pytest.mark.parametrize("proof, says", [
    ("", "neither a test nor a reason"), ("n/a", "neither a test nor a reason"), ("n/a: ", "neither a test nor a reason"),
    ("tests/sink/test_nowhere.py::test_x", "there is no file"), ("tests/sink/test_stub.py::test_x", "has no test"),
    ("tests/sink/test_kafka.c::open_with", "has no test"), ("tests/sink/test_template.py", "has no test"),
    ("tests/sink/test_stub.py::test_knows_every_outcome tests/sink/test_stub.py::test_x", "has no test"),
    ("tests/sink/test_docs.py::test_every_setting_is_on_the_page", "never says limited")])
def test_a_wrong_cell_is_seen(proof, says):
    table = matrix.load()
    table["http"]["limited"] = proof
    fault, = matrix.faults(table, [])
    assert fault.startswith("http, limited: ") and says in fault


def test_a_sink_without_a_row_is_seen():
    table = matrix.load()
    del table["mqtt"], table["http"]["order"]
    table["http"]["colour"] = "n/a: none"
    assert matrix.faults(table, ["http", "mqtt"]) == [
        "mqtt: this build has it, the table does not", "http: no such column: colour",
        "http, order: neither a test nor a reason"]
    with pytest.raises(ValueError, match="twice"):
        matrix.load("a\tretry\tn/a: x\na\tretry\tn/a: x")
