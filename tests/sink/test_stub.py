"""The stub sink: outcomes by script. Proves: V5 (a stub adapter for deterministic tests), S13 (outcomes by codes)."""
import json
import os
import subprocess

import pytest

from support.sinkdrive import Drive, OpenError, command, drive, needs_sinks
from support.under import PATIENCE

pytestmark = needs_sinks


def outcomes(script, attempts, **options):
    verdicts = drive("stub", {"script": script, **options}, [{"topic": "t", "attempt": n} for n in attempts])
    return [verdict["outcome"] for verdict in verdicts]


def lines(path):
    with open(path) as file:
        return [json.loads(line) for line in file]


def test_goes_by_attempts():
    assert outcomes("retry*2 accept", [1, 2, 3, 4]) == ["retry", "retry", "accepted", "accepted"]
    assert outcomes("retry*2 accept", [1, 1, 1], count="deliveries") == ["retry", "retry", "accepted"]


@pytest.mark.parametrize("word,outcome", [("accept", "accepted"), ("retry", "retry"), ("limited", "limited"),
                                          ("terminal", "terminal"), ("blocked", "blocked"), ("unknown", "unknown"),
                                          ("taken", "unknown"), ("not_sent", "not_sent")])
def test_knows_every_outcome(word, outcome):
    """S13"""
    [verdict] = drive("stub", {"script": word}, [{"topic": "t"}])
    assert verdict["outcome"] == outcome
    assert verdict["code"] == (None if word == "accept" else "stub_" + word)


def test_says_all_a_verdict_can():
    [verdict] = drive("stub", {"script": "limited:http_429@recipient/2s"}, [{"topic": "t"}])
    assert (verdict["code"], verdict["scope"], verdict["not_before_ms"]) == ("http_429", "recipient", 2000)
    [verdict] = drive("stub", {"script": "retry:http_503!"}, [{"topic": "t"}])
    assert verdict["code"] == "http_503" and verdict["unreachable"] and verdict["not_before_ms"] is None
    [verdict] = drive("stub", {"output": '{"a": 1}'}, [{"topic": "t"}])
    assert verdict["output"] == '{"a": 1}' and verdict["reference"] == "stub-1"


def test_topics_have_scripts():
    script = [{"topic": "orders.paid"}, {"topic": "orders.new"}]
    verdicts = drive("stub", {"topics.orders.paid": "terminal"}, script)
    assert [verdict["outcome"] for verdict in verdicts] == ["terminal", "accepted"]


def test_payloads_decide_only_if_allowed():
    script = [{"topic": "t", "payload": {"stub": "terminal"}}, {"topic": "t", "payload": {"stub": "nonsense"}},
              {"topic": "t", "payload": 1}]
    assert [v["outcome"] for v in drive("stub", {}, script)] == ["accepted"] * 3
    assert [v["outcome"] for v in drive("stub", {"obey_payload": True}, script)] == ["terminal", "accepted", "accepted"]


def test_takes_its_time():
    verdicts = drive("stub", {"delay": "60ms"}, [{"topic": "t"}, {"topic": "t"}])
    assert all(60 <= verdict["elapsed_ms"] < 10000 * PATIENCE for verdict in verdicts)


def test_is_down_for_a_while(tmp_path):
    flag = tmp_path / "down"
    with Drive("stub", {"down_file": flag, "down": ["1h-2h"]}) as sink:
        sink.send({"topic": "t"})
        assert sink.verdict()["outcome"] == "accepted"
        flag.touch()
        sink.send({"topic": "t"}, {"probe": True})
        for verdict in sink.verdicts(2).values():
            assert (verdict["outcome"], verdict["code"], verdict["unreachable"]) == ("retry", "stub_down", True)
        flag.unlink()
        sink.send({"probe": True}, {"topic": "t"})
        assert {verdict["outcome"] for verdict in sink.verdicts(2).values()} == {"accepted"}
    [verdict] = drive("stub", {"down": ["0-1h"]}, [{"topic": "t"}])
    assert verdict["unreachable"]


def test_keeps_order_within_a_key(tmp_path):
    """S13: what follows a failure was not sent, and the receiver never saw it."""
    key = [{"topic": "t", "key": "k", "seq": n, "follows": n > 1} for n in range(1, 5)]
    key[1]["topic"] = "bad"
    other = {"topic": "t", "key": "other", "seq": 1}
    for delay in ("0", "5ms"):
        ledger = tmp_path / ("ledger" + delay)
        verdicts = drive("stub", {"topics.bad": "retry", "delay": delay, "ledger": ledger}, [{"batch": key + [other]}])
        assert {v["handle"]: v["outcome"] for v in verdicts} == {1: "accepted", 2: "retry", 3: "not_sent",
                                                                 4: "not_sent", 5: "accepted"}
        assert sorted((line["key"], line["seq"]) for line in lines(ledger)) == [("k", 1), ("other", 1)]


def test_cancel_ends_a_delivery(tmp_path):
    """S11: a host that gives up hears nothing more, and what followed is given back."""
    ledger = tmp_path / "ledger"
    script = [{"batch": [{"topic": "t", "key": "k"}, {"topic": "t", "key": "k", "follows": True}]}, {"cancel": 1}]
    [verdict] = drive("stub", {"script": "silent", "ledger": ledger}, script)
    assert (verdict["handle"], verdict["outcome"]) == (2, "not_sent")
    script[1] = {"cancel": 2}
    [verdict] = drive("stub", {"delay": "20ms", "ledger": ledger}, script)
    assert (verdict["handle"], verdict["outcome"]) == (1, "accepted")
    assert len(lines(ledger)) == 1


def test_silence_is_silence():
    """S11"""
    verdicts = drive("stub", {"script": "silent"}, [{"topic": "t"}], deadline=0.2, statuses=(3,))
    assert verdicts == [{"handle": 1, "outcome": "unanswered"}]


def test_ledger_has_what_was_accepted(tmp_path):
    ledger, log = tmp_path / "ledger", tmp_path / "log"
    ids = ["018bcfe5-6800-7abc-8def-%012d" % n for n in range(3)]
    options = {"script": "accept", "topics.u": "taken", "topics.r": "retry", "ledger": ledger, "log": log, "fsync": True}
    drive("stub", options, [{"topic": topic, "id": id_, "key": "k", "seq": 1} for topic, id_ in zip("aur", ids)])
    assert [(line["id"], line["outcome"]) for line in lines(ledger)] == [(ids[0], "accepted"), (ids[1], "taken")]
    assert [line["outcome"] for line in lines(log)] == ["accepted", "taken", "retry"]
    assert {"id", "attempt", "key", "seq", "topic", "time_us"} <= set(lines(ledger)[0])


def test_ledger_survives_a_kill(tmp_path):
    """What was answered is in the ledger, whatever happens to the process."""
    ledger = tmp_path / "ledger"
    process = subprocess.Popen(command("stub", {"ledger": ledger}, 5), stdin=subprocess.PIPE, stdout=subprocess.PIPE,
                               text=True)
    process.stdin.write('{"topic":"t","repeat":1000}\n')
    process.stdin.flush()
    seen = [json.loads(process.stdout.readline()) for _ in range(500)]
    process.kill()
    process.communicate()
    assert len(lines(ledger)) >= len(seen) - 1 > 400


def test_a_full_ledger_takes_nothing():
    [verdict] = drive("stub", {"ledger": "/dev/full"}, [{"topic": "t"}])
    assert (verdict["outcome"], verdict["code"], verdict["unreachable"]) == ("retry", "stub_enospc", True)


@pytest.mark.parametrize("script", ["", "perhaps", "retry*0", "retry:", "limited/soon", "retry@moon", "accept perhaps"])
def test_bad_scripts_are_refused(script):
    with pytest.raises(OpenError, match="script"):
        Drive("stub", {"script": script})


def test_bad_ledgers_are_refused(tmp_path):
    with pytest.raises(OpenError, match="ledger"):
        Drive("stub", {"ledger": tmp_path / "none" / "ledger"})
    assert not os.listdir(tmp_path)
