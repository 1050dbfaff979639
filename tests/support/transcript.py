"""Plays the examples of a document on a real server, and compares what comes with what the document prints.

    ```sql       goes to one psql session, which lasts for the whole document; \\c - NAME changes the role
    ```console   lines that begin with "$ " are run by a shell, where `outbox` is the built one; the others are what it prints
    ```yaml      is written to the file that its first line names: "# outbox.yaml"; commands then run beside it. One without a
                 name is a part of a configuration, and must be valid; ${VARIABLES} that it names are filled
    ```text      behind one of them is what it prints; where there is none, anything but an error may come
    ```python    is run by Debian's Python
    ```sh        is not run, but could be: its programs, targets of make, jobs of tools/test and options of outbox exist
    ```json      and c are read by a parser
    `NAME`:      in the line above a block: the block is the content of that file, whatever its language
    <!-- sql     or console, or file NAME: the same, not shown to the reader; ends with --> on a line of its own
    <!-- sqlite shop.db -->   from here on sql goes to that file of SQLite
    <!-- not played: why -->  in the line above a block: it is skipped

Any other block, and text that no command stands before, is an error: what is not played says so, and why.

The server is private; the document finds an empty database `shop` on it. Ids, times and the blanks between columns may
differ from one run to the next, and beside a time the width of its column. Everything else may not: two ids that are one in
the document must be one in the run.

    /usr/bin/python3 tests/support/transcript.py docs/sql.md     writes what comes into the document
"""
import functools
import json
import os
import re
import shlex
import shutil
import subprocess
import sys
import tempfile

if __name__ == "__main__":
    sys.dont_write_bytecode = True
    sys.path.insert(0, os.path.dirname(os.path.dirname(os.path.abspath(__file__))))

from support.database import CLI, ROOT
from support.pgserver import PgServer

FENCE = re.compile(r"^```([^\n`]*)\n(.*?)^```$|^<!-- (sql|console|file \S+)\n(.*?)^-->$|^<!-- sqlite (\S+) -->$",
                   re.MULTILINE | re.DOTALL)
PLAYED = {"sql", "console", "python", "sh", "json", "c"}
SKIPPED = re.compile(r"<!-- not played: .+ -->$")
FILE = re.compile(r"^(?:.* )?`([\w.-]+\.\w+)`:$", re.MULTILINE)
MARK = "-- the block has ended --"
SETUP = "\\set SHOW_CONTEXT never\n\\pset footer off\n\\pset pager off\n"
PART = "a part of a configuration"
SECRETS = {"WEBHOOK_SECRET": "whsec_" + "c2VjcmV0" * 4, "TELEGRAM_TOKEN": "123456:" + "A" * 35}  # those that have a form
with open(os.path.join(ROOT, "Makefile")) as makefile:
    MAKEFILE = makefile.read()

VARIABLE = re.compile(
    r"(?P<id>\b[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}\b)"
    r"|(?P<time>\b\d{4}-\d\d-\d\d(?:[ T]\d\d:\d\d(?::\d\d(?:\.\d+)?)?)?(?:Z|[+-]\d\d(?::\d\d)?)?)"
    r"|(?P<period>(?<!\d)\d{8}_\d{4}\b)|(?P<age>\b\d+ s(?=  ))|(?P<number>\b\d+\.\d{3,}\b)"
    r"|(?P<folder>(?<=^sqlite )/\S*/)", re.M)


class Unplayed(Exception):
    """A block that nobody would notice to be wrong."""


class Step:
    def __init__(self, kind, source, line, name=None):
        self.kind = kind
        self.source = source
        self.line = line
        self.name = name      # of a file
        self.expected = None  # the printed text, and where it stands
        self.span = None
        self.got = None


def kind_of(language, source, above):
    """What a block is, and the name of its file."""
    named = FILE.match(above)
    if named:
        return "file", named.group(1)
    if language == "yaml":
        named = re.match(r"# ([\w.-]+)\n", source)
        return ("file", named.group(1)) if named else (PART, None)
    return language, None


def line_above(text, start):
    lines = text[:start].rstrip("\n").rsplit("\n", 1)
    return lines[-1]


def read(text):
    """The steps of a document; Unplayed for a block that is none."""
    steps = []
    for match in FENCE.finditer(text):
        line = text.count("\n", 0, match.start()) + 1
        language, source, hidden, hidden_source, sqlite = match.groups()
        above = line_above(text, match.start())
        if sqlite:
            steps.append(Step("sqlite", sqlite, line))
        elif hidden:
            kind, _, name = hidden.partition(" ")
            steps.append(Step(kind, talk(hidden_source, line)[0] if kind == "console" else hidden_source, line, name))
        elif SKIPPED.match(above):
            continue
        elif language == "text":
            if not steps or steps[-1].expected is not None or steps[-1].kind not in PLAYED:
                raise Unplayed("line %d: nothing prints this text" % line)
            steps[-1].expected, steps[-1].span = source, match.span(2)
        else:
            kind, name = kind_of(language, source, above)
            if kind not in PLAYED and kind not in ("file", PART):
                raise Unplayed("line %d: nobody plays a block of the language \"%s\"" % (line, language))
            steps.append(Step(kind, source, line, name))
            if kind == "console":
                steps[-1].source, prints = talk(source, line)
                if prints:
                    steps[-1].expected, steps[-1].span, steps[-1].kind = source, match.span(2), "talk"
    return steps


def talk(source, line):
    """The commands of a console block, and whether it shows what they print, too."""
    lines = source.rstrip("\n").split("\n")
    if not lines[0].startswith("$ "):
        raise Unplayed("line %d: the block begins with no command: \"$ ...\"" % line)
    commands = [text[2:] for text in lines if text.startswith("$ ")]
    return commands, len(commands) < len(lines)


class Plain:
    """Text without what differs from run to run. Ids are numbered as they come."""

    def __init__(self):
        self.ids = {}

    def __call__(self, text):
        self.moving = False
        # Columns that blanks set apart are as wide as their widest row, which the document may not show.
        lines = [re.sub(r"(?<=\S)  +", "  ", line.rstrip()) for line in VARIABLE.sub(self._name, text).split("\n")]
        if self.moving:  # and so is the width of its column
            lines = [re.sub(r"(?<!\S)[-─]{2,}|[-─]{2,}(?!\S)|(?<=\+)-+|-+(?=\+)", "--", re.sub(r"[ \t]+", " ", line)).strip()
                     for line in lines]
        return "\n".join(lines).strip("\n")

    def _name(self, match):
        if match.lastgroup == "id":
            return "id%d" % self.ids.setdefault(match.group(), len(self.ids) + 1)
        self.moving = True
        return match.lastgroup


class Player:
    def __init__(self, server):
        self.server = server
        self.env = {**os.environ, "PGHOST": server.folder, "PGPORT": str(server.port), "PGUSER": "postgres",
                    "PATH": os.path.dirname(CLI) + ":" + os.environ["PATH"]}
        for name in ("OUTBOX_STORE", "OUTBOX_CONFIG", "DATABASE_URL"):
            self.env.pop(name, None)
        self.psql = None
        self.sqlite = None  # the file that SQL goes to

    def __enter__(self):
        self.roles = self._roles()
        self.server.psql("CREATE DATABASE shop")
        self.folder = tempfile.TemporaryDirectory()
        return self

    def __exit__(self, *_):
        if self.psql:
            self.psql.stdin.close()
            self.psql.wait(30)
            self.psql.stdout.close()
        self.folder.cleanup()
        self.server.psql("DROP DATABASE shop WITH (FORCE)")
        for role in sorted(self._roles() - self.roles):
            self.server.psql('DROP ROLE "%s"' % role)

    def _roles(self):
        return set(self.server.psql("SELECT rolname FROM pg_roles").split("\n"))

    def play(self, step):
        return {"sql": self._sql, "console": self._console, "talk": self._talk, "file": self._file, "python": self._python,
                "sqlite": self._choose, "sh": self._sh, "json": self._json, "c": self._c, PART: self._part}[step.kind](step)

    def _run(self, *command, **options):
        done = subprocess.run(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, timeout=60,
                              **{"env": self.env, "cwd": self.folder.name, **options})
        return done.stdout + ("exit status %d\n" % done.returncode if done.returncode else "")

    def _choose(self, step):
        self.sqlite = step.source
        return ""

    def _file(self, step):
        with open(os.path.join(self.folder.name, step.name), "w") as file:
            file.write(step.source)
        return ""

    def _part(self, step):
        """A part of a configuration can be used, once its variables are set."""
        env = {name: SECRETS.get(name, "x") for name in re.findall(r"(?<!\$)\$\{(\w+)\}", step.source)}
        with tempfile.TemporaryDirectory(dir=self.folder.name) as folder:
            with open(os.path.join(folder, "part.yaml"), "w") as file:
                file.write(step.source)
            return self._run(CLI, "validate", "part.yaml", "--store", "sqlite:shop.db", cwd=folder, env={**self.env, **env})

    def _json(self, step):
        json.loads(step.source)
        return ""

    def _c(self, step):
        return self._run("gcc", "-fsyntax-only", "-I", os.path.join(ROOT, "include"), "-x", "c", "-", input=step.source)

    def _sh(self, step):
        """What a reader may type could be run; what it says about itself is not."""
        wrong = []
        for line in step.source.rstrip("\n").split("\n"):
            words = shlex.split(line, comments=True)
            while words:
                end = next((at for at, word in enumerate(words) if word in ("&&", "|", ">")), len(words))
                wrong += self._cannot_run(words[:end])
                words = words[end + 1 + (words[end:end + 1] == [">"]):]
        return "".join("exit status 127: %s\n" % text for text in wrong)

    def _cannot_run(self, words):
        name, rest = words[0], [word for word in words[1:] if "=" not in word]
        if name == "outbox":
            told = self._run(CLI, *words[1:], "--help")
            return [told] if "exit status" in told else []
        if name == "make":
            return ["no such target: %s" % word for word in rest if not re.search("^%s:" % word, MAKEFILE, re.MULTILINE)]
        if name == "tools/test":
            names = [word for word in rest if not word.startswith("-") and word not in ("asan", "tsan")]
            jobs = job_names()
            return ["no such job: %s" % word for word in names[rest.count("-k"):] if word.split("::")[0] not in jobs]
        known = os.access(os.path.join(ROOT, name), os.X_OK) or name in ("export", "cd") or shutil.which(name)
        return [] if known else ["no such program: %s" % name]

    def _python(self, step):
        return tidy(self._run("/usr/bin/python3", "-c", step.source).splitlines())

    def _sql(self, step):
        if self.sqlite:
            return tidy(self._run("sqlite3", self.sqlite, step.source).splitlines())
        if not self.psql:
            self.psql = subprocess.Popen([os.path.join(self.server.bindir, "psql"), "-X", "-q", "-d", "shop"],
                                         stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
                                         text=True, env=self.env)
            self.psql.stdin.write(SETUP)
        self.psql.stdin.write("%s\n\\echo '%s'\n" % (step.source, MARK))
        self.psql.stdin.flush()
        lines = []
        for line in self.psql.stdout:
            if line.rstrip("\n") == MARK:
                return tidy(lines)
            lines.append(line)
        raise AssertionError("psql ended:\n" + "".join(lines))

    def _console(self, step):
        return tidy(line for command in step.source for line in self._run("bash", "-c", command).splitlines())

    def _talk(self, step):
        """Commands and what they print, as on a screen."""
        out = []
        for command in step.source:
            out += ["$ " + command, *self._run("bash", "-c", command).splitlines()]
        return tidy(out)


@functools.lru_cache(None)
def job_names():
    return subprocess.run([os.path.join(ROOT, "tools", "test"), "--list"], stdout=subprocess.PIPE, text=True, check=True).stdout


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
                if re.search(r"^(?:psql:.*)?(?:ERROR|FATAL|Error|exit status)", step.got, re.MULTILINE):
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
