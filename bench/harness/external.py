"""Measurements that are programs of their own: bench/doorbell.py, bench/sqlite_*.py and the like.

Each is called with --quick when that was asked for, and finds in its environment
  OUTBOX_BENCH_PG       conninfo of a superuser on the private server, in a fresh database with the outbox in it
  OUTBOX_BENCH_BUILD    where the programs were built
  OUTBOX_BENCH_RESULTS  the folder for NAME.json
It prints its tables; status 0 says that it could measure. "checks" in its NAME.json go into the summary, when they look
like those of harness/report.py. The first line of its docstring is its title.
"""
import ast
import glob
import json
import os
import subprocess
import sys


def found(here):
    """(name, title, run) of each."""
    for path in sorted(glob.glob(os.path.join(here, "doorbell.py")) + glob.glob(os.path.join(here, "sqlite_*.py"))):
        with open(path) as file:
            title = (ast.get_docstring(ast.parse(file.read())) or "").split("\n")[0].rstrip(".")
        name = os.path.basename(path)[:-len(".py")].replace("_", "-")
        yield name, title, runner(path)


def runner(path):
    def run(bench, report):
        with bench.fresh() as database:
            results = os.path.join(os.path.dirname(path), "results")
            os.makedirs(results, exist_ok=True)
            environment = dict(os.environ, OUTBOX_BENCH_PG=bench.server.conninfo(database),
                               OUTBOX_BENCH_BUILD=bench.build, OUTBOX_BENCH_RESULTS=results)
            subprocess.run([sys.executable, path] + (["--quick"] if bench.quick else []), env=environment, check=True)
            merge(report, os.path.join(results, report.data["name"] + ".json"))
    return run


def merge(report, path):
    """What the program wrote wins over what we know; both are kept."""
    if os.path.exists(path):
        with open(path) as file:
            report.data.update(json.load(file))
