"""Runs isolation specs: interleaved steps of several sessions, as PostgreSQL's own isolationtester plays them.

The program comes with Debian's postgresql-client-15, outside of the PATH. A spec's expected output lies beside it, in
expected/NAME.out. To write one: run the spec, read what happened line by line, and when every line is right run it again
with OUTBOX_ACCEPT=1, which keeps it.
"""
import difflib
import os
import subprocess


class IsolationError(AssertionError):
    pass


def find_tester(server):
    path = os.path.join(os.path.dirname(server.bindir), "lib", "pgxs", "src", "test", "isolation", "isolationtester")
    if not os.path.exists(path):
        raise IsolationError("no isolationtester at %s: run tools/deps test" % path)
    return path


def play(database, spec):
    """The output of one spec on one database."""
    with open(spec) as script:
        done = subprocess.run([find_tester(database.server), database.conninfo()], stdin=script,
                              stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, timeout=300)
    if done.returncode != 0:
        raise IsolationError("isolationtester failed on %s:\n%s" % (spec, done.stdout))
    return done.stdout


def check(database, spec):
    folder, name = os.path.split(spec)
    expected = os.path.join(folder, "expected", name.replace(".spec", ".out"))
    output = play(database, spec)
    if os.environ.get("OUTBOX_ACCEPT"):
        with open(expected, "w") as file:
            file.write(output)
    wanted = ""
    if os.path.exists(expected):
        with open(expected) as file:
            wanted = file.read()
    if output == wanted:
        return
    diff = difflib.unified_diff(wanted.splitlines(True), output.splitlines(True), expected, "what happened")
    raise IsolationError("%s:\n%s" % (name, "".join(diff)))
