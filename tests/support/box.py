"""An outbox in any store, driven by the command line, with a worker beside it."""
import json
import os
import subprocess

from support.database import BUILD, run_cli

STORES = json.loads(run_cli("version", "--json").stdout)["stores"]


class Box:
    """An outbox in any store, with a worker beside it."""

    def __init__(self, url):
        self.url = url

    def cli(self, command, *args, **options):
        return run_cli(command, "--store", self.url, *args, **options)

    def json(self, command, *args):
        return json.loads(self.cli(command, *args, "--json").stdout)

    def send(self, *args):
        return self.json("send", *args)["id"]

    def show(self, id_):
        return self.json("show", id_)

    def list(self, *args):
        return [json.loads(line) for line in self.cli("list", "--json", *args).stdout.splitlines()]

    def worker(self, *words):
        done = subprocess.run([os.path.join(BUILD, "tests", "system", "worker"), self.url, *map(str, words)],
                              stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, timeout=60)
        assert done.returncode == 0, done.stdout
        return done.stdout.splitlines()

    def settle(self, outcome, code="http_400", error="refused"):
        """Claims all that is due and settles it; the ids."""
        return self.worker("settle", outcome, code, error)

    def kill(self, *args, **how):
        """A dead letter."""
        id_ = self.send(*args)
        assert self.settle(3, **how) == [id_]
        return id_


def fresh_box(request, tmp_path):
    """For a fixture with params=STORES: a fresh outbox in that store."""
    if request.param == "postgresql":
        return Box(request.getfixturevalue("db").url())
    fresh = Box("sqlite:%s" % (tmp_path / "outbox.db"))
    fresh.cli("init")
    return fresh
