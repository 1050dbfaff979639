"""tools/test reads results right: nothing that failed may look like a pass.

Proves: the closing line of the tests can be trusted (style, tests).
"""
import importlib.machinery
import importlib.util
import os
import sys
import time

import pytest

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
sys.path.insert(0, os.path.join(ROOT, "tools"))

from runner.jobs import CommandJob, PytestJob, TapJob  # noqa: E402
from runner.results import read_junit, TapReader  # noqa: E402


def runner_script():
    loader = importlib.machinery.SourceFileLoader("tools_test", os.path.join(ROOT, "tools", "test"))
    module = importlib.util.module_from_spec(importlib.util.spec_from_loader("tools_test", loader))
    loader.exec_module(module)
    return module


def read(text, code=0, timed_out=False):
    """[(status, name, reason)] of a program that printed this and ended so."""
    reader = TapReader("job", 0.0)
    for number, line in enumerate(text.strip("\n").split("\n"), 1):
        reader.line(line.strip(), float(number))
    return [(result.status, result.name, result.reason) for result in reader.finish(code, timed_out, 100.0)]


def test_passes_failures_and_skips_of_cmocka():
    results = read("""
        1..4
        ok 1 - a
        # SKIP no server here
        not ok 2 # SKIP b
        # SKIP not applicable: has no roles
        not ok 3 # SKIP c
        not ok 4 - d
        # 0x1 != 0x2
    """, code=1)
    assert results == [("passed", "a", ""), ("skipped", "b", "no server here"), ("not applicable", "c", "has no roles"),
                       ("failed", "d", "")]


def test_directives_of_plain_tap():
    results = read("""
        1..3
        ok 1 - M4 S4: a key # SKIP not applicable: one writer only
        ok 2 - other # skip no time
        ok 3 - last
    """)
    assert results == [("not applicable", "M4 S4: a key", "one writer only"), ("skipped", "other", "no time"),
                       ("passed", "last", "")]


def test_a_failure_takes_the_lines_around_it():
    reader = TapReader("job", 0.0)
    for line in ("1..2", "before", "not ok 1 - a", "# behind", "of the next", "# too", "ok 2 - b"):
        reader.line(line, 1.0)
    assert reader.results[0].output == "before\n# behind\n"


def test_a_failure_of_cmocka_ends_where_it_says_so():
    reader = TapReader("job", 0.0)
    for line in ("1..2", "not ok 1 - a", "# x.c:3: error: Failure!", "# of b", "not ok 2 - b", "# x.c:4: error: Failure!"):
        reader.line(line, 1.0)
    assert [result.output for result in reader.results] == [
        "# x.c:3: error: Failure!\n", "# of b\n# x.c:4: error: Failure!\n"]


def test_times_are_those_between_the_lines():
    reader = TapReader("job", 10.0)
    for line, now in (("1..2", 10.5), ("ok 1 - a", 12.0), ("ok 2 - b", 12.25)):
        reader.line(line, now)
    assert [result.seconds for result in reader.results] == [2.0, 0.25]


@pytest.mark.parametrize("text, code, timed_out, why", [
    ("1..3\nok 1 - a", -11, False, "ended early, killed by SIGSEGV; 2 tests did not end"),
    ("1..3\nok 1 - a", 0, False, "ended early, exit status 0; 2 tests did not end"),
    ("1..1\nok 1 - a", 1, False, "no test failed, but exit status 1"),
    ("1..2\nok 1 - a", -9, True, "timed out; 1 tests did not end"),
    ("no tap at all", 0, False, "it printed no test result"),
    ("", 127, False, "no test failed, but exit status 127"),
])
def test_a_program_that_ends_badly_failed(text, code, timed_out, why):
    results = read(text, code, timed_out)
    assert results[-1][:2] == ("failed", why)


def test_exit_77_skips_the_program():
    assert read("no such library", code=77) == [("skipped", "", "no such library")]


def run(job, tmp_path):
    results = []
    job.run({**os.environ, "TMPDIR": str(tmp_path)}, results.append)
    return results


def test_a_real_program_is_read_while_it_runs(tmp_path):
    script = "echo 1..2; echo ok 1 - a; sleep 0.2; echo loud >&2; echo not ok 2 - b; echo '# why'; exit 1"
    results = run(TapJob("job", ["sh", "-c", script]), tmp_path)
    assert [(result.status, result.name) for result in results] == [("passed", "a"), ("failed", "b")]
    assert results[1].output == "loud\n# why\n"
    assert results[1].seconds >= 0.2 > results[0].seconds


def is_running(pid):
    """A zombie does not run: it only waits for whoever inherited it."""
    try:
        with open("/proc/%d/stat" % pid) as file:
            return file.read().rsplit(")", 1)[1].split()[0] != "Z"
    except FileNotFoundError:
        return False


def test_a_program_that_hangs_is_ended_with_its_children(tmp_path):
    job = TapJob("job", ["sh", "-c", "echo 1..1; sleep 1000 & echo $! > %s/pid; wait" % tmp_path])
    job.timeout = 0.5
    results = run(job, tmp_path)
    assert [(result.status, result.name) for result in results] == [("failed", "timed out; 1 tests did not end")]
    child = int((tmp_path / "pid").read_text())
    deadline = time.monotonic() + 5
    while is_running(child) and time.monotonic() < deadline:
        time.sleep(0.01)
    assert not is_running(child)


def test_commands_pass_or_fail(tmp_path):
    good, = run(CommandJob("job", ["true"]), tmp_path)
    bad, = run(CommandJob("job", ["sh", "-c", "echo oh; exit 3"]), tmp_path)
    missing, = run(CommandJob("job", ["/no/such/program"]), tmp_path)
    assert (good.status, bad.status, missing.status) == ("passed", "failed", "failed")
    assert (bad.name, bad.output) == ("exit status 3", "oh\n")


def test_junit_files(tmp_path):
    path = tmp_path / "junit.xml"
    path.write_text("""<testsuites><testsuite>
        <testcase name="a" time="1.5"/>
        <testcase name="b" time="0"><failure message="m">text</failure></testcase>
        <testcase name="c" time="0"><skipped message="not applicable: x"/></testcase>
        <testcase name="d" time="0"><error message="in a fixture"/></testcase>
    </testsuite></testsuites>""")
    results = read_junit("job", str(path), 1, "")
    assert [(result.name, result.status) for result in results] == [
        ("a", "passed"), ("b", "failed"), ("c", "not applicable"), ("d", "failed")]


def test_pytest_without_a_report_failed(tmp_path):
    result, = read_junit("job", str(tmp_path / "none.xml"), 2, "usage: pytest")
    assert (result.status, result.output) == ("failed", "usage: pytest")


def test_pytest_that_fails_outside_of_a_test_failed(tmp_path):
    path = tmp_path / "junit.xml"
    path.write_text('<testsuites><testsuite><testcase name="a" time="0"/></testsuite></testsuites>')
    assert [result.status for result in read_junit("job", str(path), 3, "")] == ["passed", "failed"]


def test_a_name_chooses_jobs_and_tests():
    """FILE::TEST narrows a job down, whatever kind of job it is."""
    jobs = [TapJob("unit/base/test_buf", ["x"]), PytestJob("system/test_cli.py", "tests/system/test_cli.py"),
            PytestJob("system/test_cli_names.py", "tests/system/test_cli_names.py"), CommandJob("check/docs", ["y"])]
    chosen, lost = runner_script().wanted(jobs, ["test_buf::grow", "test_cli::help"], None)
    assert lost == []
    assert [job.name for job in chosen] == ["unit/base/test_buf", "system/test_cli.py"]
    assert chosen[0].env["OUTBOX_TEST_FILTER"] == "*grow*"
    assert chosen[1].command[-2:] == ["-k", "help"]


def test_no_name_is_passed_over():
    """A name that is part of no job is a failure; two tests of one job both run."""
    jobs = [TapJob("unit/base/test_buf", ["x"]), PytestJob("system/test_cli.py", "tests/system/test_cli.py")]
    chosen, lost = runner_script().wanted(jobs, ["test_buf::grow", "test_bfu", "test_buf::print"], None)
    assert lost == ["test_bfu"]
    assert [job.env["OUTBOX_TEST_FILTER"] for job in chosen] == ["*grow*", "*print*"]
    assert runner_script().wanted(jobs, ["test_cli", "system"], None) == ([jobs[1]], [])


def test_one_test_of_a_program_runs_alone(tmp_path):
    program = os.path.join(ROOT, "build", "tests", "unit", "base_test_buf")
    job = TapJob("job", [program], {"CMOCKA_MESSAGE_OUTPUT": "TAP"})
    everything = [result.name for result in run(job, tmp_path)]
    job.only(everything[1])
    assert [result.name for result in run(job, tmp_path)] == [everything[1]]
