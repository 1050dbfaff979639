"""Programs and plugins built with older and newer headers run with today's library and host.

Proves: V5 (an adapter interface that lasts), S14 (nothing is read or written beyond a caller's struct): tests/abi/frozen.h
stands for the headers of another age.
"""
import json
import os
import subprocess

import pytest

from support.database import BUILD, ROOT, run_cli
from support.relay import Relay
from support.sinkdrive import Drive, OpenError, drive, needs_sinks

HERE = os.path.join(ROOT, "tests", "abi")
LIBRARY = os.path.join(BUILD, "src", "lib")
AGES = ["OLDER", "TODAY_AS_IT_IS", "NEWER"]


def compile_(source, out, age, *flags):
    subprocess.run(["gcc", "-g", "-std=gnu11", "-Wall", "-Wextra", "-Wno-missing-field-initializers", "-Werror", "-D" + age,
                    os.path.join(HERE, source), "-o", str(out), *flags], check=True)
    return out


@pytest.fixture(params=AGES)
def plugin(request, tmp_path):
    return str(compile_("plugin.c", tmp_path / "aged.so", request.param, "-shared", "-fPIC"))


def lines(path):
    return path.read_text().splitlines() if path.exists() else []


@needs_sinks
def test_a_plugin_of_any_age_delivers(plugin, tmp_path):
    """V5: its options, messages and verdicts arrive whole: in one batch, so that the stride matters."""
    file = tmp_path / "out"
    messages = [{"topic": "t%d" % n, "payload": {"n": n}} for n in range(5)] + [{"topic": "refused"}, {"topic": "odd"}]
    verdicts = drive(plugin, {"path": file, "copies": 2}, [{"batch": messages}])
    assert [verdict["outcome"] for verdict in verdicts[:6]] == ["accepted"] * 5 + ["terminal"]
    assert verdicts[5]["text"] == "refused by a sink of another age"
    assert lines(file) == ['t%d {"n":%d}' % (n, n) for n in range(5) for _ in range(2)]


@needs_sinks
def test_settings_of_any_age_are_checked(plugin, tmp_path):
    with pytest.raises(OpenError, match="copies"):
        Drive(plugin, {"path": tmp_path / "out", "copies": 4})
    with pytest.raises(OpenError, match="colour"):
        Drive(plugin, {"path": tmp_path / "out", "colour": "red"})


@needs_sinks
def test_the_check_of_any_age_is_heard(plugin, tmp_path, request):
    """V5: a sink's own check sees its options, as they stand in an array of its age; an older one has no check."""
    config = tmp_path / "outbox.yaml"
    config.write_text("store: sqlite:/x.db\nsinks: {aged: {kind: %s, path: /x, copies: 3}}\nroutes: [{sink: aged}]\n" % plugin)
    older = "OLDER" in request.node.name
    done = run_cli("validate", "--config", str(config), check=False)
    assert ("error: sinks.aged.copies: is one too many" in done.stdout + done.stderr) == (not older)
    assert (done.returncode == 0) == older


@needs_sinks
def test_a_relay_runs_a_plugin_of_any_age(plugin, tmp_path):
    """V5: an outcome that this relay does not know is no success and no loss: the message is tried again."""
    url = "sqlite:%s" % (tmp_path / "box.db")
    run_cli("init", url)
    for topic in ("a", "b", "refused"):
        run_cli("send", topic, '{"n":1}', "--store", url)
    odd = json.loads(run_cli("send", "odd", "{}", "--max-attempts", "1", "--json", "--store", url).stdout)["id"]
    relay = Relay(tmp_path, url, {"aged": {"kind": plugin, "path": str(tmp_path / "out")}}, [{"sink": "aged"}])
    relay.until_empty()
    assert sorted(lines(tmp_path / "out")) == ['a {"n":1}', 'b {"n":1}']
    shown = json.loads(run_cli("show", odd, "--json", "--store", url).stdout)
    assert [(attempt["outcome"], attempt["code"]) for attempt in shown["attempts"]] == [("unknown", "bad_verdict")]


@pytest.mark.parametrize("age", AGES)
def test_a_program_of_any_age_sends_and_settles(age, tmp_path):
    """S14: receipts, lanes, rules and an array of outcomes, with the sizes that the program was built with."""
    url = "sqlite:%s" % (tmp_path / "box.db")
    run_cli("init", url)
    program = compile_("program.c", tmp_path / "program", age, "-L", LIBRARY, "-loutbox")
    done = subprocess.run([str(program), url], stdout=subprocess.PIPE, text=True, timeout=60,
                          env={**os.environ, "LD_LIBRARY_PATH": LIBRARY})
    sent = [] if age == "OLDER" else ["sent a created 1", "sent b created 1", "sent skipped created 1"]
    assert (done.returncode, done.stdout.splitlines()) == (
        0, sent + ["claimed a", "claimed b", "settled 0 dead 0", "settled 0 dead 1"])
