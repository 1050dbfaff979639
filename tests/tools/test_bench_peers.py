"""The harness behind make bench-peers measures what it says: our own side and the floor, tiny, without a registry.

Proves: figures beside peers can be taken and reported by one command (N2, N14: beside whom, and at what cost).
"""
import collections
import json
import os
import subprocess
import sys
import xml.etree.ElementTree

import pytest

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
sys.path[:0] = [os.path.join(ROOT, "bench"), ROOT]

from compare import budget, load, machine, standing  # noqa: E402
from compare.lab import Lab  # noqa: E402
from compare.samples import Samples  # noqa: E402
from compare.worker import Failed, Worker  # noqa: E402


def run_peers(*args):
    done = subprocess.run([os.path.join(ROOT, "bench", "run-peers"), *map(str, args)], stdout=subprocess.PIPE,
                          stderr=subprocess.STDOUT, text=True, timeout=300)
    assert done.returncode == 0, done.stdout
    return done.stdout


@pytest.fixture(scope="module")
def results(tmp_path_factory):
    folder = tmp_path_factory.mktemp("results")
    run_peers("--quick", "--peers", "floor,outbox-keys", "--only", "drain,latency,producer,life", "--messages", 300,
              "--rates", 100, "--seconds", 0.3, "--clients", 2, "--folder", folder)
    return folder


def samples(folder, name):
    with open(folder / ("peers-%s.json" % name)) as file:
        data = json.load(file)
    assert data["failed"] == {} and data["skipped"] == {}
    assert data["machine"]["cores"] == os.cpu_count() and data["settings"]["fsync"] == "on"
    return data["samples"]


def test_a_drain_handles_everything_and_says_what_it_cost(results):
    rows = {row["system"]: row for row in samples(results, "drain")}
    assert set(rows) == {"floor", "outbox-keys"}
    for row in rows.values():
        assert row["count"] >= 300 and row["rate"] > 0
        assert 0 <= row["others"] <= 1
    assert 50 < rows["floor"]["wal"] < 5000 and 0 < rows["outbox-keys"]["wal"] < 5000


def test_latency_is_measured_from_commit_to_handler(results):
    rows = samples(results, "latency")
    assert {row["system"] for row in rows} == {"floor", "outbox-keys"}
    for row in rows:
        assert row["lost"] == 0 and 0 <= row["p50"] <= row["p95"] <= row["p99"] <= row["worst"]


def test_the_producer_and_the_whole_life_are_measured(results):
    rows = samples(results, "producer")
    assert {(row["system"], row["clients"]) for row in rows} == {(name, 2) for name in ("alone", "plain", "floor", "outbox-keys")}
    assert all(row["tps"] > 0 for row in rows)
    assert {row["system"] for row in rows if row["awake"]} == {"floor", "outbox-keys"}
    for row in samples(results, "life"):
        assert row["count"] == 300 and row["deliver_wal"] > 0 and row["peak_table_bytes"] > 100


def test_the_page_is_made_from_the_results(results, tmp_path):
    run_peers("--report", "--folder", results, "--docs", tmp_path)
    page = (tmp_path / "benchmarks.md").read_text()
    assert "prove only that the harness works" in page
    for heading in ("## Drain", "## Latency over load", "## What the producer pays", "## A message's life"):
        assert heading in page
    for name in ("drain", "latency-p50", "latency-p99", "producer", "life"):
        assert "(benchmarks/%s.svg)" % name in page
        xml.etree.ElementTree.parse(tmp_path / "benchmarks" / (name + ".svg"))


def test_what_falls_behind_is_not_sustained():
    made = {number: 10_000_000 + number * 1000 for number in range(3000)}
    end = max(made.values())
    produced = {"produced": 3000, "seconds": 3.0}
    on_time = load.judge(1000, made, {number: us + 2000 for number, us in made.items()}, produced, end)
    assert on_time["sustained"] and on_time["p50"] == pytest.approx(2.0) and on_time["behind"] <= 3
    late = load.judge(1000, made, {number: us + number * 1000 for number, us in made.items()}, produced, end)
    assert not late["sustained"] and late["behind"] > 1000
    slow = load.judge(1000, made, dict(made), {"produced": 3000, "seconds": 3.5}, end)
    assert not slow["sustained"]


def sample(system, **values):
    return {"system": system, "noisy": False, **values}


def test_every_bar_is_in_the_table_measured_or_not():
    rows = [bar.row() for bar in standing.bars({}, {})]
    assert len(rows) >= 20 and {row[5] for row in rows} == {"", "not measured"}
    systems = {name: {"label": name, "per_message": name != "pgq"} for name in ("floor", "outbox", "pgq", "pgmq-delete")}
    results = {"drain": {"systems": systems, "samples": [
        sample("floor", rate=200, server_us=8.0), sample("outbox", rate=100, server_us=9.0),
        sample("outbox", rate=110, server_us=9.0), sample("pgq", rate=300, server_us=2.0),
        sample("pgmq-delete", rate=50, server_us=20.0)]}}
    found = {bar.what: bar.row() for bar in standing.bars(results, {})}
    assert found["drain, no keys: floor's server CPU ÷ ours"][3:] == ["0.89", "≥ 0.85", "**yes**", "2"]
    assert found["drain through `outbox run` ÷ best peer with state per message"][1:6] == [
        "105/s", "pgmq-delete 50.0/s", "2.10", "≥ 2", "**yes**"]
    assert found["the same ÷ PgQ's bulk read"][3:6] == ["0.35", "≥ 0.5", "**no**"]


@pytest.fixture
def lab(monkeypatch):
    """One that takes samples, without a server."""
    self = Lab.__new__(Lab)
    self.options = type("Options", (), {"retries": 0, "budget": 1})
    self.quick, self.failures, self.budget = False, collections.Counter(), budget.Budget(1, quick=True)
    self.results = {"name": "any", "systems": {}, "samples": [], "thrown_away": [], "failed": {}, "left_out": []}
    monkeypatch.setattr(self, "write", lambda: None)
    monkeypatch.setattr(self, "check_server", lambda: None)
    monkeypatch.setattr(machine, "wait_until_quiet", lambda patience: 0.0)
    return self


class Anybody:
    name, label = "anybody", "anybody 1.0"

    @staticmethod
    def describe():
        return {}

    @staticmethod
    def short(values):
        return ""


def test_a_sample_that_would_not_end_in_time_is_not_begun(lab):
    lab.budget.note("any/anybody/slow", 90)
    lab.budget.note("any/anybody/soon", 0.5)
    assert lab.take(Anybody, "slow", lambda: pytest.fail("it was begun")) is None
    assert lab.take(Anybody, "soon", lambda: {"rate": 1})["rate"] == 1
    assert lab.results["left_out"] == ["anybody 1.0, slow"] and len(lab.results["samples"]) == 1
    assert lab.budget.known["any/anybody/soon"] < 0.5  # so long it took


def test_a_sample_that_fails_is_on_record_and_not_tried_for_ever(lab):
    tried = []

    def broken():
        tried.append(1)
        raise ZeroDivisionError("by nothing")

    assert [lab.take(Anybody, "broken", broken) for _ in range(4)] == [None] * 4
    assert len(tried) == 2 and lab.results["failed"] == {"anybody 1.0, broken": "ZeroDivisionError: by nothing"}


def test_quiet_samples_count_before_noisy_ones():
    rows = [{"system": "a", "noisy": noisy, "rate": rate} for noisy, rate in ((True, 1), (False, 5), (False, 7))]
    found = Samples({"samples": rows, "systems": {"a": {"label": "a"}}})
    assert found.median("a", "rate") == 6 and not found.marked("a")
    only = Samples({"samples": rows[:1], "systems": {"a": {"label": "a"}}})
    assert only.median("a", "rate") == 1 and only.marked("a")


def test_the_work_of_a_child_that_ended_is_ours():
    before = machine.tree_cpu(os.getpid())
    subprocess.run([sys.executable, "-c", "sum(i * i for i in range(3000000))"], check=True)
    assert machine.tree_cpu(os.getpid()) - before >= 0.05
    with machine.Noise() as noise:
        pass
    assert noise.share >= 0


def test_a_worker_that_dies_is_a_failure_with_its_reason():
    worker = Worker(["sh", "-c", "echo broken >&2; exit 3"], {})
    worker.start()
    with pytest.raises(Failed, match="ended with 3 .*broken"):
        worker.ready()
    worker.stop()
