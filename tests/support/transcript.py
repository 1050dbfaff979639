"""Plays the examples of a document on a real server, and compares what comes with what the document prints.

    ```sql       goes to one psql session, which lasts for the whole document; \\c - NAME changes the role
    ```console   lines that begin with "$ " are run by a shell, where `outbox` is the built one
    ```yaml      is written to the file that its first line names: "# outbox.yaml"; commands then run beside it
    ```text      behind one of them is what it prints; where there is none, anything but an error may come
    <!-- sql     or console: the same, not shown to the reader; ends with --> on a line of its own

The server is private; the document finds an empty database `shop` on it. Ids, times, the width of columns and the list of
migrations may differ from one run to the next. Everything else may not: two ids that are one in the document must be one
in the run.

    /usr/bin/python3 tests/support/transcript.py docs/sql.md     writes what comes into the document
"""
import os
import re
import subprocess
import sys
import tempfile

if __name__ == "__main__":
    sys.dont_write_bytecode = True
    sys.path.insert(0, os.path.dirname(os.path.dirname(os.path.abspath(__file__))))

from support.database import CLI
from support.pgserver import PgServer

BLOCK = re.compile(r"^```(sql|console|text|yaml)\n(.*?)^```$|^<!-- (sql|console)\n(.*?)^-->$", re.MULTILINE | re.DOTALL)
MARK = "-- the block has ended --"
SETUP = "\\set SHOW_CONTEXT never\n\\pset footer off\n\\pset pager off\n"

VARIABLE = re.compile(
    r"(?P<id>\b[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}\b)"
    r"|(?P<time>\b\d{4}-\d\d-\d\d(?:[ T]\d\d:\d\d(?::\d\d(?:\.\d+)?)?)?(?:Z|[+-]\d\d(?::\d\d)?)?)"
    r"|(?P<period>(?<!\d)\d{8}_\d{4}\b)|(?P<number>\b\d+\.\d{3,}\b)")


class Step:
    def __init__(self, kind, source, line):
        self.kind = kind
        self.source = source
        self.line = line
        self.expected = None  # the printed text, and where it stands
        self.span = None
        self.got = None


def read(text):
    steps = []
    for match in BLOCK.finditer(text):
        kind, source = match.group(1) or match.group(3), match.group(2) or match.group(4) or ""
        if kind != "text":  # a command, or a file for one
            steps.append(Step(kind, source, text.count("\n", 0, match.start()) + 1))
        elif steps and steps[-1].expected is None:
            steps[-1].expected, steps[-1].span = source, match.span(2)
    return steps


class Plain:
    """Text without what differs from run to run. Ids are numbered as they come."""

    def __init__(self):
        self.ids = {}

    def __call__(self, text):
        text = VARIABLE.sub(self._name, re.sub(r"^applied \d+_.*\n", "", text, flags=re.MULTILINE))
        lines = [re.sub(r"-{2,}", "--", re.sub(r"[ \t]+", " ", line)).strip() for line in text.split("\n")]
        return "\n".join(lines).strip()

    def _name(self, match):
        if match.lastgroup == "id":
            return "id%d" % self.ids.setdefault(match.group(), len(self.ids) + 1)
        return match.lastgroup


class Player:
    def __init__(self, server):
        self.server = server
        self.env = {**os.environ, "PGHOST": server.folder, "PGPORT": str(server.port), "PGUSER": "postgres",
                    "PATH": os.path.dirname(CLI) + ":" + os.environ["PATH"]}
        self.env.pop("OUTBOX_STORE", None)
        self.psql = None
        self.folder = None  # of the files

    def __enter__(self):
        self.roles = self._roles()
        self.server.psql("CREATE DATABASE shop")
        return self

    def __exit__(self, *_):
        if self.psql:
            self.psql.stdin.close()
            self.psql.wait(30)
            self.psql.stdout.close()
        if self.folder:
            self.folder.cleanup()
        self.server.psql("DROP DATABASE shop WITH (FORCE)")
        for role in sorted(self._roles() - self.roles):
            self.server.psql('DROP ROLE "%s"' % role)

    def _roles(self):
        return set(self.server.psql("SELECT rolname FROM pg_roles").split("\n"))

    def play(self, step):
        return {"sql": self._sql, "console": self._console, "yaml": self._yaml}[step.kind](step.source)

    def _yaml(self, source):
        self.folder = self.folder or tempfile.TemporaryDirectory()
        name = re.match(r"# (\w+\.yaml)\n", source)
        if name:
            with open(os.path.join(self.folder.name, name.group(1)), "w") as file:
                file.write(source)
        return ""

    def _sql(self, source):
        if not self.psql:
            self.psql = subprocess.Popen([os.path.join(self.server.bindir, "psql"), "-X", "-q", "-d", "shop"],
                                         stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
                                         text=True, env=self.env)
            self.psql.stdin.write(SETUP)
        self.psql.stdin.write("%s\n\\echo '%s'\n" % (source, MARK))
        self.psql.stdin.flush()
        lines = []
        for line in self.psql.stdout:
            if line.rstrip("\n") == MARK:
                return tidy(lines)
            lines.append(line)
        raise AssertionError("psql ended:\n" + "".join(lines))

    def _console(self, source):
        out = []
        for line in source.split("\n"):
            if line.startswith("$ "):
                done = subprocess.run(["bash", "-c", line[2:]], stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
                                      text=True, env=self.env, timeout=60,
                                      cwd=self.folder.name if self.folder else None)
                out += done.stdout.splitlines(keepends=True)
                if done.returncode:
                    out.append("exit status %d\n" % done.returncode)
        return tidy(out)


def tidy(lines):
    """No blanks at the ends of lines, no empty lines at the ends."""
    return "\n".join(line.rstrip() for line in lines).strip("\n") + "\n"


def play(text, server):
    """The steps of a document, with what came; and those where it is not what the document says."""
    steps, wrong = read(text), []
    printed, came = Plain(), Plain()
    with Player(server) as player:
        for step in steps:
            step.got = player.play(step)
            if step.expected is None:
                if re.search(r"^(?:psql:.*)?(?:ERROR|FATAL|exit status)", step.got, re.MULTILINE):
                    wrong.append(step)
            elif printed(step.expected) != came(step.got):
                wrong.append(step)
    return steps, wrong


def rewrite(text, wrong):
    for step in reversed(wrong):
        if step.span:
            text = text[:step.span[0]] + step.got + text[step.span[1]:]
    return text


def main():
    for path in sys.argv[1:]:
        with open(path) as file:
            text = file.read()
        with PgServer() as server:
            _, wrong = play(text, server)
        for step in wrong:
            print("%s:%d: %s" % (path, step.line, "written anew" if step.span else "an error:\n" + step.got))
        with open(path, "w") as file:
            file.write(rewrite(text, wrong))


if __name__ == "__main__":
    main()
