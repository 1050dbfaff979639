"""The exec sink. Proves: N3 (exec), M19 (metadata in the environment), S13 (exit statuses), S11 (it can be ended)."""
import json
import os
import subprocess
import time

import pytest

from support.sinkdrive import Drive, OpenError, command, drive, needs_sinks
from support.under import PATIENCE, UNDER

pytestmark = needs_sinks


def sh(script, *args):
    return ["/bin/sh", "-c", script, "sh", *args]


def run(script, message=None, **options):
    [verdict] = drive("exec", {"command": sh(script), **options}, [message or {"topic": "t", "payload": {"n": 1}}])
    return verdict


def is_alive(pid):
    try:
        with open("/proc/%d/stat" % pid) as file:
            return file.read().rsplit(")", 1)[1].split()[0] != "Z"
    except FileNotFoundError:
        return False


def wait_for(what, seconds=10):
    deadline = time.monotonic() + seconds * PATIENCE
    while not what():
        assert time.monotonic() < deadline
        time.sleep(0.01)


def test_payload_on_stdin(tmp_path):
    out = tmp_path / "out"
    verdict = run('cat > "$OUT"', **{"env.OUT": out})
    assert verdict["outcome"] == "accepted" and verdict["code"] is None
    assert out.read_text() == '{"n":1}'


def test_large_and_empty_payloads(tmp_path):
    out = tmp_path / "out"
    big = "x" * 3_000_000
    run('cat > "$OUT"', {"topic": "t", "payload_text": big}, **{"env.OUT": out})
    assert out.read_text() == big
    run('cat > "$OUT"', {"topic": "t", "payload_text": ""}, **{"env.OUT": out})
    assert out.read_text() == ""


def test_a_program_need_not_read():
    assert run("exit 0", {"topic": "t", "payload": "x" * 1_000_000})["outcome"] == "accepted"


def test_environment_is_clean(tmp_path):
    """M19: the metadata, PATH and what is configured; nothing of the relay's own."""
    out = tmp_path / "out"
    trace = "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01"
    message = {"id": "018bcfe5-6800-7abc-8def-0123456789ab", "topic": "orders.paid", "namespace": "shop", "key": "k; rm",
               "seq": 4, "attempt": 2, "dedupe_key": "$(id)", "subject": "s", "recipient": "r", "correlation_id": "c",
               "tenant": "0a0a0a0a-1111-4222-8333-444444444444", "redriven": True, "headers": {"traceparent": trace}}
    options = {"command": ["/usr/bin/env", "-0"], "env.TEAM": "red"}
    command_line = {"command": sh("/usr/bin/env -0 > %s" % out), **{k: v for k, v in options.items() if k != "command"}}
    [verdict] = drive("exec", command_line, [message], env={"SECRET": "hunter2"})
    assert verdict["outcome"] == "accepted"
    env = dict(pair.split("=", 1) for pair in out.read_text().split("\0") if pair)
    for own in ("PWD", "SHLVL", "_", "OLDPWD"):  # of the shell
        env.pop(own, None)
    assert env.pop("PATH") == os.environ["PATH"]
    assert env == {
        "TEAM": "red", "OUTBOX_ID": message["id"], "OUTBOX_TOPIC": "orders.paid", "OUTBOX_NAMESPACE": "shop",
        "OUTBOX_KEY": "k; rm", "OUTBOX_SEQ": "4", "OUTBOX_ATTEMPT": "2", "OUTBOX_DEDUPE_KEY": "$(id)",
        "OUTBOX_SUBJECT": "s", "OUTBOX_RECIPIENT": "r", "OUTBOX_CORRELATION_ID": "c",
        "OUTBOX_TENANT": message["tenant"], "OUTBOX_REDRIVEN": "true", "OUTBOX_CONTENT_TYPE": "application/json",
        "OUTBOX_HEADERS": json.dumps(message["headers"], separators=(",", ":")), "OUTBOX_TRACEPARENT": trace,
    }


def test_no_shell_reads_the_command(tmp_path):
    out = tmp_path / "a b;c"
    [verdict] = drive("exec", {"command": ["touch", str(out)]}, [{"topic": "t"}])
    assert verdict["outcome"] == "accepted" and out.exists()


def test_no_descriptor_leaks(tmp_path):
    """Even one that is open for all to inherit."""
    out = tmp_path / "out"
    with open("/dev/null") as null:
        os.set_inheritable(null.fileno(), True)
        process = subprocess.run(command("exec", {"command": sh("ls /proc/self/fd > %s" % out)}, 5), text=True,
                                 input='{"topic":"t"}\n', stdout=subprocess.PIPE, pass_fds=[null.fileno()])
    assert process.returncode == 0
    assert out.read_text().split() == ["0", "1", "2", "3"]  # 3: the folder that ls reads


STATUSES = {0: "accepted", 1: "retry", 64: "blocked", 65: "terminal", 66: "terminal", 67: "terminal", 68: "terminal",
            69: "retry", 70: "retry", 71: "retry", 72: "blocked", 73: "retry", 74: "retry", 75: "retry", 76: "retry",
            77: "blocked", 78: "blocked", 126: "blocked", 127: "blocked", 200: "retry"}


def test_statuses():
    """S13"""
    script = [{"topic": "t", "key": str(status)} for status in STATUSES]
    verdicts = drive("exec", {"command": sh('echo "went wrong" >&2; exit "$OUTBOX_KEY"')}, script)
    got = {v["handle"]: v for v in verdicts}
    for handle, (status, outcome) in enumerate(STATUSES.items(), 1):
        verdict = got[handle]
        assert (verdict["outcome"], verdict["code"]) == (outcome, "exit_%d" % status if status else None)
        assert verdict["text"] == ("went wrong\n" if status else None)
        assert verdict["unreachable"] == (status == 69)


def test_statuses_can_be_set():
    """S13"""
    assert run("exit 3", **{"exit.3": "terminal"})["outcome"] == "terminal"
    assert run("exit 0", **{"exit.0": "retry"})["outcome"] == "retry"
    assert run("exit 3", other="unknown")["outcome"] == "unknown"


def test_a_signal_is_unknown():
    """S13"""
    verdict = run("kill -SEGV $$")
    assert (verdict["outcome"], verdict["code"]) == ("unknown", "signal_11")


def test_output():
    verdict = run("""echo '{"reference": "r-1", "more": [1]}'""")
    assert verdict["reference"] == "r-1" and json.loads(verdict["output"]) == {"reference": "r-1", "more": [1]}
    for text in ("plain text", "[1]", '{"a":', '{"a": 1} {"b": 2}'):
        verdict = run("printf '%s' '" + text + "'")
        assert (verdict["outcome"], verdict["output"], verdict["reference"]) == ("accepted", None, None)


def test_output_is_bounded():
    """A program that talks without end is heard to its end, and its words are not kept."""
    verdict = run('head -c 5000000 /dev/zero | tr "\\0" " "; echo "{}"; head -c 5000000 /dev/zero >&2; exit 75')
    assert verdict["outcome"] == "retry" and verdict["output"] is None and len(verdict["text"]) <= 4000
    assert run("echo '{} and more'", max_output="2B")["output"] is None


def test_cancel_kills_the_group(tmp_path):
    """S11: SIGTERM, and SIGKILL for those that do not hear it, children included."""
    pids = tmp_path / "pids"
    script = "trap '' TERM; sleep 600 & echo $! $$ > %s.new; mv %s.new %s; wait; sleep 600" % (pids, pids, pids)
    with Drive("exec", {"command": sh(script), "kill_after": "50ms"}) as sink:
        sink.send({"topic": "t"})
        wait_for(pids.exists)
        numbers = [int(word) for word in pids.read_text().split()]
        assert all(map(is_alive, numbers))
        sink.send({"cancel": 1})
        wait_for(lambda: not any(map(is_alive, numbers)))
        status, rest = sink.finish()
        assert (status, rest) == (0, [])


def test_a_kind_program_gets_its_sigterm(tmp_path):
    """S11"""
    ready, out = tmp_path / "ready", tmp_path / "out"
    script = "trap 'echo bye > %s; exit 0' TERM; touch %s; while :; do sleep 0.02; done" % (out, ready)
    with Drive("exec", {"command": sh(script), "kill_after": "20s"}) as sink:
        sink.send({"topic": "t"})
        wait_for(ready.exists)
        sink.send({"cancel": 1})
        wait_for(out.exists)


def test_what_is_left_behind_is_killed(tmp_path):
    """S11: a child that outlives its parent, and holds its output open, holds nobody up."""
    pid = tmp_path / "pid"
    start = time.monotonic()
    verdict = run("sleep 600 & echo $! > %s" % pid)
    assert verdict["outcome"] == "accepted" and time.monotonic() - start < 5 * PATIENCE
    wait_for(lambda: not is_alive(int(pid.read_text())))


def test_one_that_left_the_group_holds_nobody_up(tmp_path):
    """S11: it keeps the pipes open; the verdict comes all the same."""
    pid = tmp_path / "pid"
    start = time.monotonic()
    verdict = run("setsid sh -c 'echo $$ > %s.new; mv %s.new %s; exec sleep 30' & while ! test -e %s; do sleep 0.01; done"
                  % (pid, pid, pid, pid))
    assert verdict["outcome"] == "accepted" and time.monotonic() - start < 5 * PATIENCE
    os.kill(int(pid.read_text()), 9)


def test_close_leaves_nothing(tmp_path):
    pids = [tmp_path / str(n) for n in range(5)]
    with Drive("exec", {"command": sh('echo $$ > "$OUTBOX_KEY.new"; mv "$OUTBOX_KEY.new" "$OUTBOX_KEY"; sleep 600')},
               ) as sink:
        sink.send(*[{"topic": "t", "key": str(path)} for path in pids])
        wait_for(lambda: all(path.exists() for path in pids))
        numbers = [int(path.read_text()) for path in pids]
        sink.send({"close": True})
        assert sink.process.wait(timeout=10 * PATIENCE) == 3
        assert not any(map(is_alive, numbers))


def test_many_at_once():
    start = time.monotonic()
    verdicts = drive("exec", {"command": ["sleep", "0.3"]}, [{"topic": "t", "repeat": 20}])
    assert [v["outcome"] for v in verdicts] == ["accepted"] * 20
    assert time.monotonic() - start < 4 * PATIENCE


@pytest.mark.parametrize("program,code", [("/no/such/program", "exec_enoent"), ("/etc/passwd", "exec_eacces"),
                                          ("no-such-program", "exec_enoent")])
def test_a_program_that_cannot_run_blocks(program, code):
    """S13"""
    for verdict in drive("exec", {"command": [program]}, [{"topic": "t"}, {"probe": True}]):
        assert (verdict["outcome"], verdict["code"], verdict["scope"]) == ("blocked", code, "sink")


def test_probe_looks_where_the_program_will_run(tmp_path):
    """S13: a path is one from `directory`, and a folder is no program."""
    (tmp_path / "folder").mkdir()
    (tmp_path / "x").write_text("#!/bin/sh\n")
    (tmp_path / "x").chmod(0o755)
    (tmp_path / "plain").write_text("")
    (tmp_path / "plain").chmod(0o644)

    def look(program, **options):
        """What the probe says, and what running it comes to."""
        probe, ran = drive("exec", {"command": [str(program)], **options}, [{"probe": True}, {"wait": True}, {"topic": "t"}])
        assert (probe["outcome"], probe["code"]) == (ran["outcome"], ran["code"])
        return probe["code"]
    here = {"directory": tmp_path}
    assert look("./x", **here) is None and look("x", **here, **{"env.PATH": "."}) is None
    assert look("./x") == look("./none", **here) == "exec_enoent"
    assert look(tmp_path / "folder") == look("./folder", **here) == look("./plain", **here) == "exec_eacces"
    assert look("./x", directory=tmp_path / "x") == "exec_enotdir"


def test_probe_runs_nothing(tmp_path):
    out = tmp_path / "out"
    [verdict] = drive("exec", {"command": ["touch", str(out)]}, [{"probe": True}])
    assert verdict["outcome"] == "accepted" and not out.exists()
    [verdict] = drive("exec", {"command": ["true"], "directory": tmp_path / "none"}, [{"probe": True}])
    assert verdict["outcome"] == "blocked"


@pytest.mark.skipif(bool(UNDER), reason="valgrind cannot go back when the kernel refuses an exec so late")
def test_metadata_too_large_is_terminal():
    """S13"""
    verdict = run("exit 0", {"topic": "t", "headers": {"h": "x" * 200_000}})
    assert (verdict["outcome"], verdict["code"]) == ("terminal", "exec_e2big")


@pytest.mark.parametrize("options,text", [({}, "command"), ({"command": [""]}, "command"),
                                          ({"command": ["true"], "env.A-B": "x"}, "env.A-B"),
                                          ({"command": ["true"], "env.OUTBOX_ID": "x"}, "OUTBOX_"),
                                          ({"command": ["true"], "exit.999": "retry"}, "exit.999"),
                                          ({"command": ["true"], "exit.3": "perhaps"}, "exit.3")])
def test_bad_options_are_refused(options, text):
    with pytest.raises(OpenError, match=text):
        Drive("exec", options)


def test_a_shortage_of_our_own_costs_nothing():
    """S13: no descriptor is left to start a program with: not the message's fault, and nothing was tried."""
    for limit in range(30, 8, -1):
        try:
            with Drive("exec", {"command": sh("true")}, prefix=["prlimit", "--nofile=%d" % limit]) as sink:
                sink.send({"topic": "t", "payload": 1})
                verdict = sink.verdict()
        except (OpenError, AssertionError):
            break
        if verdict["outcome"] != "accepted":
            assert (verdict["outcome"], verdict["code"]) == ("not_sent", "exec_emfile")
            assert verdict["not_before_ms"] > 0
            return
    raise AssertionError("the limit was never met")
