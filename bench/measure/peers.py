"""Other queues in PostgreSQL on the same server in the same run, each set as well as its own documents say.

They are installed from npm into a temporary folder, at the versions of peers/versions.json. pgmq is plain SQL; a
package for another PostgreSQL carries it. One that cannot be installed is named, with the reason.
"""
import glob
import json
import os
import re
import shutil
import subprocess
import tarfile
import tempfile

from harness import drain

NAME = "peers"
TITLE = "graphile-worker, pg-boss and pgmq draining as many no-op jobs on the same server"
HERE = os.path.join(os.path.dirname(os.path.dirname(os.path.abspath(__file__))), "peers")


class Missing(Exception):
    """A peer that could not be installed."""


class Shelf:
    """A temporary folder of npm packages."""

    def __init__(self, folder):
        self.folder = folder
        with open(os.path.join(HERE, "versions.json")) as file:
            self.versions = json.load(file)
        self.node = shutil.which("node")
        with open(os.path.join(folder, "package.json"), "w") as file:
            file.write('{"private": true, "type": "module"}\n')

    def install(self, *names):
        if not shutil.which("npm"):
            raise Missing("npm is not installed")
        wanted = ["%s@%s" % (name, self.versions[name]) for name in names]
        done = subprocess.run(["npm", "install", "--no-audit", "--no-fund", "--legacy-peer-deps"] + wanted,
                              cwd=self.folder, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, timeout=600)
        if done.returncode != 0:
            errors = [line for line in done.stdout.splitlines() if "error" in line.lower()]
            raise Missing("npm install %s: %s" % (" ".join(wanted), "; ".join(errors[:3]) or done.stdout[-300:]))

    def install_node(self):
        """The peers want a newer Node than distributions have; without one they must do with what is here."""
        try:
            self.install("node")
            own = os.path.join(self.folder, "node_modules/.bin/node")
            subprocess.run([own, "--version"], stdout=subprocess.DEVNULL, check=True)
            self.node = own
        except (Missing, OSError, subprocess.SubprocessError):
            pass

    def version(self, name):
        with open(os.path.join(self.folder, "node_modules", name, "package.json")) as file:
            return json.load(file)["version"]

    def run(self, script, url, count):
        shutil.copy(os.path.join(HERE, script), self.folder)
        done = subprocess.run([self.node, script, str(count)], cwd=self.folder, stdout=subprocess.PIPE,
                              stderr=subprocess.PIPE, text=True, timeout=1200, env=dict(os.environ, DATABASE_URL=url))
        if done.returncode != 0:
            raise RuntimeError("%s: %s" % (script, (done.stderr or done.stdout).strip()[-1000:]))
        return json.loads(done.stdout.strip().splitlines()[-1])


class NodePeer:
    """A peer that is driven by a script of its own."""

    def __init__(self, shelf, name):
        shelf.install(name, "pg")
        self.shelf, self.name = shelf, name
        self.label = "%s %s" % (name, shelf.version(name))

    def measure(self, bench, report, count):
        with bench.fresh() as database:
            got = self.shelf.run(self.name + ".mjs", bench.server.url(database), count)
        if got["left"]:
            raise RuntimeError("%s left %d jobs" % (self.name, got["left"]))
        report.sample(self.label, rate=got["count"] / got["seconds"], **got)


class Pgmq:
    """pgmq's SQL, driven by the same loop as ours: read with a visibility timeout, then delete or archive."""

    PACKAGE = "@electric-sql/pglite-pgmq"

    def __init__(self, shelf, how):
        shelf.install(self.PACKAGE)
        for path in glob.glob(os.path.join(shelf.folder, "node_modules", self.PACKAGE, "dist/*.tar.gz")):
            with tarfile.open(path) as archive:
                for name in archive.getnames():
                    found = re.search(r"/pgmq--(\d+\.\d+\.\d+)\.sql$", name)
                    if found:
                        self.sql = archive.extractfile(name).read().decode()
                        self.how, self.label = how, "pgmq %s, read + %s" % (found.group(1), how)
                        return
        raise Missing("%s carries no pgmq--VERSION.sql" % self.PACKAGE)

    def measure(self, bench, report, count):
        with bench.fresh() as database:
            with bench.connect(database, "postgres") as conn:
                # The file is made for CREATE EXTENSION; what only that understands is left out.
                lines = [line for line in self.sql.splitlines() if not line.startswith("\\")]
                text = re.sub(r"select pg_catalog\.pg_extension_config_dump\([^;]*;", "", "\n".join(lines), flags=re.I)
                conn.execute("create schema if not exists pgmq")
                conn.execute(text)
                conn.execute("select pgmq.create('bench')")
                conn.execute("grant all on schema pgmq to bench; grant all on all tables in schema pgmq to bench;"
                             "grant all on all sequences in schema pgmq to bench")
                conn.execute("select count(*) from pgmq.send_batch('bench', array(select jsonb_build_object('i', i,"
                             " 'pad', repeat('x', 181 - length(i::text))) from generate_series(1, %d) i))" %
                             (count + 1000))
            bench.settle_down(database)
            got = bench.pg_bench("drain", database, side="pgmq-" + self.how, count=count)
        drain.keep(report, self.label, got)


def install(shelf, report):
    """The peers that there are; those that there are not are on record."""
    peers = []
    for name, make in (("graphile-worker", lambda: NodePeer(shelf, "graphile-worker")),
                       ("pg-boss", lambda: NodePeer(shelf, "pg-boss")),
                       ("pgmq", lambda: Pgmq(shelf, "delete")), ("pgmq", lambda: Pgmq(shelf, "archive"))):
        try:
            peers.append(make())
        except (Missing, OSError, subprocess.SubprocessError) as problem:
            report.note("%s could not be installed: %s" % (name, problem))
    return peers


def measure(bench, report):
    count = bench.size(100000, 5000)
    with tempfile.TemporaryDirectory(prefix="ob-peers-") as folder:
        shelf = Shelf(folder)
        shelf.install_node()
        peers = install(shelf, report)
        if shelf.node:
            version = subprocess.run([shelf.node, "--version"], stdout=subprocess.PIPE, text=True).stdout.strip()
            report.note("Node %s" % version)
        for _ in range(bench.times(3)):
            drain.side(bench, report, "outbox, no keys", count)
            drain.side(bench, report, "outbox, 1000 keys", count, {"keys": 1000}, run=500)
            for peer in list(peers):
                try:
                    peer.measure(bench, report, count)
                except RuntimeError as problem:
                    report.note("%s could not be measured: %s" % (peer.label, problem))
                    peers.remove(peer)

    ours = report.median("outbox, no keys", "rate")
    rows = [[label, report.median(label, "rate"), ours / report.median(label, "rate")]
            for label in ["outbox, no keys", "outbox, 1000 keys"] + [peer.label for peer in peers]]
    print("  %d no-op jobs of 200 bytes, medians of %d. Ours: one connection, full attempt record." %
          (count, bench.times(3)))
    report.table(["", "jobs/s", "outbox / it"], rows)
