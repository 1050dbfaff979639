"""The null sink, and the way Python drives adapters. Proves: V5, N3."""
import pytest

from support.sinkdrive import Drive, OpenError, drive, needs_sinks

pytestmark = needs_sinks


def test_takes_everything():
    script = [{"topic": "a", "payload": n} for n in range(3)]
    script += [{"batch": [{"topic": "b", "key": "k", "seq": 1}, {"topic": "b", "key": "k", "seq": 2, "follows": True}]}]
    verdicts = drive("null", {}, script + [{"probe": True}])
    assert [(v["handle"], v["outcome"]) for v in verdicts] == [(n, "accepted") for n in range(1, 7)]


def test_goes_step_by_step():
    with Drive("null") as sink:
        for n in range(1, 4):
            sink.send({"topic": "a"})
            assert sink.verdict()["handle"] == n


def test_says_what_is_wrong():
    with pytest.raises(OpenError, match="colour"):
        Drive("null", {"colour": "red"})
    with pytest.raises(OpenError, match="pigeon.*null"):
        Drive("pigeon")
