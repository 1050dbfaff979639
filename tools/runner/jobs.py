"""The jobs: what there is to run, and how each is run.

A job is a name, a command and a way to read its output. `alone` jobs run when nothing else does.
"""
import glob
import json
import os
import re
import subprocess
import tempfile
import time

from . import process
from .results import FAILED, PASSED, Result, TapReader, exit_text, read_junit

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
PYTHON = "/usr/bin/python3"  # Debian's, which has Debian's pytest and psycopg

# Builds: the folder and whether tests run in it. The Makefile knows how to make them.
FLAVOURS = {"gcc": "build", "clang": "build-clang", "asan": "build-asan", "tsan": "build-tsan"}
COMPILE_ONLY = {"clang"}
SLOWER = {"asan": 3, "tsan": 6}

SANITIZER_ENV = {
    "ASAN_OPTIONS": "detect_leaks=1:strict_string_checks=1:detect_stack_use_after_return=1",
    "UBSAN_OPTIONS": "halt_on_error=1:print_stacktrace=1",
    "TSAN_OPTIONS": "halt_on_error=1:second_deadlock_stack=1",
}


class Job:
    timeout = 600
    alone = False
    needs_server = False

    def __init__(self, name, command, env=None):
        self.name = name
        self.command = command
        self.env = env or {}

    def run(self, env, on_result):
        raise NotImplementedError

    def only(self, test):
        """Runs the tests whose name contains this and no others, where the job has tests that can be told apart."""


class CommandJob(Job):
    """Passes when the command does."""

    def run(self, env, on_result):
        start, lines = time.monotonic(), []
        code, timed_out = process.run(self.command, lambda text, _: lines.append(text), {**env, **self.env}, ROOT,
                                      self.timeout)
        why = "timed out" if timed_out else exit_text(code) if code else ""
        result = Result(self.name, why, FAILED if why else PASSED, time.monotonic() - start,
                        output="".join(line + "\n" for line in lines))
        on_result(result)


class TapJob(Job):
    """A C test program. tests/support/ob_test.h heeds the filter, and so does the contract suite."""

    def only(self, test):
        self.env = {**self.env, "OUTBOX_TEST_FILTER": "*%s*" % test}

    def run(self, env, on_result):
        reader = TapReader(self.name, time.monotonic())
        pending = []  # a failed test waits for the comments behind its line

        def on_line(text, now):
            result = reader.line(text, now)
            if result:
                flush()
                pending.append(result)

        def flush():
            while pending:
                on_result(pending.pop(0))

        code, timed_out = process.run(self.command, on_line, {**env, **self.env}, ROOT, self.timeout)
        flush()
        known = len(reader.results)
        for result in reader.finish(code, timed_out, time.monotonic())[known:]:
            on_result(result)


class PytestJob(Job):
    """One file of Python tests."""
    timeout = 900

    def only(self, test):
        self.command = self.command + ["-k", test]

    def __init__(self, name, path, env=None):
        super().__init__(name, [PYTHON, "-m", "pytest", "-q", "--tb=short", "-c", "tests/pytest.ini", "--rootdir=tests",
                                path], env)

    def run(self, env, on_result):
        lines = []
        with tempfile.TemporaryDirectory(dir=env.get("TMPDIR")) as folder:
            report = os.path.join(folder, "junit.xml")
            code, timed_out = process.run(self.command + ["--junitxml=" + report], lambda text, _: lines.append(text),
                                          {**env, **self.env}, ROOT, self.timeout)
            output = "".join(line + "\n" for line in lines)
            if timed_out:
                on_result(Result(self.name, "timed out", FAILED, self.timeout, output=output))
                return
            for result in read_junit(self.name, report, code, output):
                on_result(result)


# Python tests that the thread sanitizer watches: threads of brokers, of mail connections, of admin and maintenance.
THREADED = ("sink/test_redis.py", "sink/test_smtp_goodbye.py", "system/test_admin.py", "system/test_reload.py")

# What make check leaves out: servers that take long to start, long stories, loops for minutes.
QUICK = ("check/", "unit/", "sim/", "contract/", "isolation/", "tools/test_checks", "tools/test_runner", "system/test_cli",
         "system/test_config", "system/test_examples_docs", "system/test_statements", "system/test_rights.py", "system/test_relay.py", "sink/test_render",
         "sink/test_registry", "sink/test_placeholders", "sink/test_net_guard", "sink/test_http_request", "sink/test_stdout",
         "sink/test_file", "system/lib_")


def is_quick(job):
    return job.name.startswith(QUICK)


def build_jobs(flavours):
    """A folder that was set up before cmocka came, by `make demo` say, has no tests: it is set up again, and must find it."""
    script = ('make -s "$1/build.ninja" && { grep -q cmd "$1/meson-info/intro-tests.json" || '
              'meson configure -Dtests=enabled "$1"; } && make -s "build-$2"')
    return {flavour: CommandJob("build/" + flavour, ["sh", "-c", script, "build", FLAVOURS[flavour], flavour])
            for flavour in flavours}


def check_jobs():
    names = ["check-abi", "check-includes", "check-monitoring", "check-tree", "check-words"]
    jobs = [CommandJob("check/" + name[6:], [os.path.join(ROOT, "tools", name)]) for name in names]
    jobs.append(CommandJob("fuzz/seconds", [os.path.join(ROOT, "tools", "fuzz"), "--seconds", "3"]))
    jobs.append(CommandJob("check/docs", [os.path.join(ROOT, "tools", "gen-docs"), "--check"]))
    jobs.append(CommandJob("check/layout", [os.path.join(ROOT, "tools", "lint"), "layout"]))
    jobs += [CommandJob("lint/" + name, [os.path.join(ROOT, "tools", "lint"), name]) for name in ("tidy", "cppcheck")]
    return jobs


def launcher(flavour):
    """What a program is started with. Where the kernel scatters addresses widely, those of gcc's thread sanitizer are taken."""
    calm = ["setarch", "-R"]
    if flavour == "tsan" and subprocess.run([*calm, "true"], stderr=subprocess.DEVNULL, check=False).returncode == 0:
        return calm
    return []


def program_jobs(flavour):
    """The test programs of one build, as meson lists them; in a sanitizer build only those of the suite of its name."""
    build = os.path.join(ROOT, FLAVOURS[flavour])
    done = subprocess.run(["meson", "introspect", "--tests", build], stdout=subprocess.PIPE, check=True)
    jobs = []
    for test in json.loads(done.stdout):
        suites = {suite.split(":")[-1] for suite in test["suite"]}
        if flavour in SLOWER and flavour not in suites:
            continue
        name = test["name"] + (" [%s]" % flavour if flavour in SLOWER else "")
        job = TapJob(name, launcher(flavour) + test["cmd"], {**test["env"], "OUTBOX_BUILD": FLAVOURS[flavour]})
        job.timeout = max(test["timeout"], 1) * SLOWER.get(flavour, 1)
        job.alone = not test["is_parallel"]
        job.needs_server = "pg" in suites
        if flavour in SLOWER:
            job.env.update(SANITIZER_ENV)
        jobs.append(job)
    return jobs


def pytest_jobs(flavour="gcc"):
    """One job per file; of the thread sanitizer only those of programs with threads. `pytest.mark.alone` anywhere in a file
    makes the file run alone."""
    jobs = []
    for path in sorted(glob.glob(os.path.join(ROOT, "tests", "*", "**", "test_*.py"), recursive=True)):
        relative = os.path.relpath(path, ROOT)
        name = os.path.relpath(relative, "tests")
        if flavour == "tsan" and name not in THREADED:
            continue
        env = {**SANITIZER_ENV, "OUTBOX_BUILD": FLAVOURS[flavour]} if flavour == "tsan" else {}
        job = PytestJob(name + (" [tsan]" if flavour == "tsan" else ""), relative, env)
        job.command = launcher(flavour) + job.command
        with open(path) as file:
            job.alone = bool(re.search(r"\bmark\.alone\b", file.read()))
        jobs.append(job)
    return jobs
