"""The programs of examples/producers, run as their readers run them, each by a role that may only enqueue.

Proves: M1 M4 M6 S3 S4 S18 in psql, Python, Node, Go and Java; and M10 S8 for the worker.

Packages come into a folder of their own below the user's cache, and stay there: only the first run fetches them. Where a
toolchain or a registry is missing that is a skip, and it says so.
"""
import os
import re
import shutil
import signal
import subprocess
import sys
import threading
import time

import pytest

from support.database import ROOT
from support.roles import login_name, people

EXAMPLES = os.path.join(ROOT, "examples", "producers")
CACHE = os.path.join(os.environ.get("XDG_CACHE_HOME") or os.path.expanduser("~/.cache"), "outbox", "examples")
PAID = r"paid 42: message ([0-9a-f-]{36}), created (true|false), seq (\d+)"
JDBC = "42.7.4"


def run(*command, env=None, cwd=None, timeout=600):
    return subprocess.run(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, cwd=cwd, timeout=timeout,
                          env={**os.environ, **(env or {})})


def need(*tools):
    for tool in tools:
        if not shutil.which(tool):
            pytest.skip("%s is not installed: run tools/deps examples" % tool)


def fetched(done, what):
    """A registry that cannot be reached is nobody's fault here; what comes from it and does not build is."""
    if done.returncode and re.search(r"ENOTFOUND|EAI_AGAIN|ETIMEDOUT|ECONN|UnknownHost|Could not transfer|dial tcp|"
                                     r"lookup |no such host|timed out|offline mode", done.stdout + done.stderr):
        pytest.skip("%s cannot be fetched: no way to its registry" % what)
    assert done.returncode == 0, done.stdout + done.stderr


@pytest.fixture
def shop(db):
    """A database for the role that may only enqueue, and have tables of its own."""
    crowd = people(db)
    db.sql("GRANT CREATE ON SCHEMA public TO %s" % login_name("producer"))
    crowd.url = db.url(login_name("producer"))
    return crowd


def check(shop, done):
    """What the program says is true: one order, one message, the same one again, nothing of what rolled back."""
    assert done.returncode == 0, done.stdout + done.stderr
    lines = done.stdout.strip().split("\n")
    assert len(lines) == 3 and lines[2] == "rolled back 43", done.stdout
    first, again = (re.fullmatch(PAID, line).groups() for line in lines[:2])
    assert first[1:] == ("true", "1") and again == (first[0], "false", "1")
    db = shop.db
    assert db.sql("SELECT id, state FROM orders") == [(42, "paid")]
    assert db.sql("SELECT id::text, topic, key, seq, dedupe_key, payload, status FROM outbox.messages") \
        == [(first[0], "orders.paid", "order-42", 1, "paid-42", {"order": 42}, "pending")]
    assert db.sql("SELECT created, seq FROM outbox.enqueue('orders.paid', '{}', key => 'order-43', dedupe_key => 'paid-43')") \
        == [(True, 1)], "the dedupe key and the number are free"


def test_psql(shop):
    """M1 M4 S18"""
    psql = os.path.join(shop.db.server.bindir, "psql")
    check(shop, run(psql, "-X", shop.url, "-f", os.path.join(EXAMPLES, "psql", "orders.sql")))


def test_python(shop):
    """M1 M4 S18"""
    check(shop, run(sys.executable, os.path.join(EXAMPLES, "python", "orders.py"), shop.url))


def test_node(shop):
    """M1 M4 S18"""
    need("node", "npm")
    folder = os.path.join(CACHE, "node")
    os.makedirs(folder, exist_ok=True)
    for name in ("package.json", "orders.js"):
        shutil.copy(os.path.join(EXAMPLES, "node", name), folder)
    if not os.path.isdir(os.path.join(folder, "node_modules", "pg")):
        fetched(run("npm", "install", "--no-audit", "--no-fund", "--no-package-lock", cwd=folder), "the package pg")
    check(shop, run("node", os.path.join(folder, "orders.js"), shop.url))


def test_go(shop, tmp_path):
    """M1 M4 S18: not optimized, because building all of Go's library is most of the time that this takes."""
    need("go")
    program = str(tmp_path / "orders")
    env = {"GOMODCACHE": os.path.join(CACHE, "go", "mod"), "GOCACHE": os.path.join(CACHE, "go", "build"),
           "GOTOOLCHAIN": "local", "CGO_ENABLED": "0", "GOFLAGS": "-modcacherw"}
    source = os.path.join(EXAMPLES, "go")
    fetched(run("go", "mod", "download", env=env, cwd=source), "the module pgx")
    built = run("go", "build", "-p", "2", "-gcflags=all=-N -l", "-ldflags=-s -w", "-o", program, ".", env=env, cwd=source)
    assert built.returncode == 0, built.stderr
    check(shop, run(program, shop.url))


def jdbc_driver():
    """Debian's, or the one of Maven's registry."""
    debian, fetched_jar = "/usr/share/java/postgresql.jar", os.path.join(CACHE, "java", "postgresql-%s.jar" % JDBC)
    if os.path.exists(debian):
        return debian
    if not os.path.exists(fetched_jar):
        need("mvn")
        fetched(run("mvn", "-q", "-B", "-Dmaven.repo.local=" + os.path.join(CACHE, "java", "repository"), "dependency:copy",
                    "-Dartifact=org.postgresql:postgresql:" + JDBC, "-DoutputDirectory=" + os.path.dirname(fetched_jar)),
                "the JDBC driver")
    return fetched_jar


def test_java(shop):
    """M1 M4 S18"""
    need("java", "javac")
    url = "jdbc:" + re.sub(r"//(\w+)@(.*)", r"//\2?user=\1", shop.url)
    check(shop, run("java", "-cp", jdbc_driver(), os.path.join(EXAMPLES, "java", "Orders.java"), url))


def test_worker(shop):
    """M6 M10 S8: it delivers, tries again what failed, and at SIGTERM holds nothing any more."""
    db = shop.db
    with shop.connect("producer", autocommit=True) as conn:
        for number in (1, 2, 3):
            conn.execute("SELECT outbox.enqueue('orders.paid', to_jsonb(%s::int), key => 'order-1')", (number,))
        conn.execute("SELECT outbox.enqueue('mail.fail', '{}')")
    worker = subprocess.Popen([sys.executable, os.path.join(EXAMPLES, "python", "worker.py"), db.url(login_name("relay"))],
                              stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    try:
        wait_for(db, "SELECT count(*) FILTER (WHERE status = 'delivered') = 3 AND bool_or(last_code = 'RuntimeError') "
                     "FROM outbox.messages")
        worker.send_signal(signal.SIGTERM)
        out, err = worker.communicate(timeout=30)
    finally:
        worker.kill()
    assert (worker.returncode, err) == (0, "")
    assert [line.split()[-1] for line in out.strip().split("\n")] == ["1", "2", "3"], "in order"
    assert db.sql("SELECT DISTINCT topic, outcome, code, error FROM outbox.attempts WHERE outcome <> 'processing' ORDER BY 1") == [
        ("mail.fail", "retry", "RuntimeError", "the receiver is down"), ("orders.paid", "delivered", None, None)]
    assert db.sql("SELECT count(*) FROM outbox.messages WHERE status = 'processing'") == [(0,)]


def wait_for(db, question, seconds=60):
    """Asks until the answer is yes."""
    deadline, again = time.monotonic() + seconds, threading.Event()
    with db.connect(autocommit=True) as conn:
        while not conn.execute(question).fetchone()[0]:
            assert time.monotonic() < deadline, question
            again.wait(0.02)


@pytest.mark.parametrize("path", sorted(os.path.relpath(os.path.join(folder, name), EXAMPLES)
                                        for folder, _, names in os.walk(EXAMPLES) for name in names
                                        if name.endswith((".sql", ".py", ".js", ".go", ".java"))))
def test_they_are_short(path):
    """M6: a reader sees all of it at once."""
    with open(os.path.join(EXAMPLES, path)) as file:
        assert len(file.readlines()) <= (120 if path.endswith("worker.py") else 60)
