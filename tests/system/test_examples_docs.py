"""The examples of the documents, played as their readers would: what is printed is what comes.

Proves: docs/*.md (S5 roles, V14 erasure, Y4 hooks, V11 configuration, M1 M4 M5 M6 M10 the SQL API). When one fails because the product was
changed on purpose: /usr/bin/python3 tests/support/transcript.py docs/NAME.md, and read what it wrote.
"""
import fnmatch
import os
import re
import subprocess

import pytest

from support import transcript
from support.database import ROOT

DOCUMENTS = subprocess.run(["git", "ls-files", "*.md"], cwd=ROOT, stdout=subprocess.PIPE, text=True, check=True).stdout.split()


def text_of(path):
    with open(os.path.join(ROOT, path), encoding="utf-8") as file:
        return file.read()


@pytest.mark.parametrize("path", [path for path in DOCUMENTS if re.search("^```", text_of(path), re.MULTILINE)])
def test_examples(pg_server, path):
    """M6 S5 Y4 V11 V14: of every document with examples. A block that cannot be played says so, and why."""
    _, wrong = transcript.play(text_of(path), pg_server)
    assert not wrong, "\n".join("%s:%d prints\n%s\nbut there came\n%s" % (path, step.line, step.expected, step.got)
                                for step in wrong)


def test_a_wrong_example_is_seen(pg_server):
    """M6: this file can fail: by another text, by an error, by ids that are one here and two there, by a word more or less."""
    same, other = "01a1e003-d7fc-76b7-afe4-6a4e428fd820", "01a1e003-d810-73d1-a1ff-1f0c2b478601"
    block = "```sql\n%s;\n```\n"
    ids = block % "select gen_random_uuid() as a, gen_random_uuid() as b" + "```text\na|b\n%s|%s\n```\n"
    page = (block % "select 1 as a" + "```text\n a\n---\n 1\n```\n" + block % "select 1 as b" + "```text\n a\n---\n 1\n```\n"
            + block % "select 1 / 0" + "<!-- sql\n\\pset format unaligned\n-->\n"
            + ids % (same, other) + ids % (same, same)
            + "```console\n$ echo applied 001_roles\napplied 001_roles\napplied 002_tables\n```\n"
            + "```console\n$ echo 'a b'\na  b\n```\n" + "```console\n$ false\n```\n"
            + "```yaml\nsinks: {a: {kind: pigeon}}\n```\n" + "```sh\nmake tea\n```\n```sh\noutbox send --sugar\n```\n")
    steps, wrong = transcript.play(page, pg_server)
    assert [steps.index(step) for step in wrong] == [1, 2, 5, 6, 7, 8, 9, 10, 11]


@pytest.mark.parametrize("page", [
    "```\nanything\n```\n",
    "```haskell\nmain\n```\n",
    "```text\nwho prints this?\n```\n",
    "```sql\nselect 1;\n```\n```text\n1\n```\n```text\n1\n```\n",
    "```console\noutbox status\n```\n",
])
def test_a_block_that_nobody_plays_is_refused(page):
    """M6: what a document shows is played, or says why not."""
    with pytest.raises(transcript.Unplayed):
        transcript.read(page)
    assert transcript.read("<!-- not played: a drawing -->\n```\nanything\n```\n") == []


def test_every_column_is_described(db):
    """M3 S17 T6: docs/views.md names the columns that the views have, in the words of their comments."""
    found = db.sql("""
        SELECT c.relname, a.attname, col_description(c.oid, a.attnum) FROM pg_class c
          JOIN pg_attribute a ON a.attrelid = c.oid AND a.attnum > 0
         WHERE c.relnamespace = 'outbox'::regnamespace AND c.relkind = 'v' AND obj_description(c.oid) IS NOT NULL""")
    described, view = set(), None
    for line in text_of("docs/views.md").split("\n"):
        heading, row = re.match(r"## (\w+)$", line), re.match(r"\| `(\w+)` \| (.*) \|$", line)
        view = heading.group(1) if heading else view
        if row:
            described.add((view, *row.groups()))
    assert described == set(found)


@pytest.mark.parametrize("path", DOCUMENTS)
def test_links_lead_somewhere(path):
    """M6: files and headings that a document points at are there."""
    assert lost_links(path, text_of(path)) == []


def test_a_lost_link_is_seen():
    """M6: this file can fail: by a file that is not there, by a heading that is not there."""
    page = "# Here\n[a](sql.md) [b](sql.md#enqueue) [c](#here) [d](../README.md)\n[e](none.md) [f](sql.md#none)\n[g](#none)\n"
    assert lost_links("docs/x.md", page) == ["none.md", "sql.md#none", "#none"]


def lost_links(path, text):
    lost = []
    for target, _, anchor in re.findall(r"\]\(([^)#\s]*)(#([^)\s]*))?\)", text):
        if target.startswith("http"):
            continue
        found = os.path.normpath(os.path.join(os.path.dirname(path), target)) if target else path
        if target and not os.path.exists(os.path.join(ROOT, found)):
            lost.append(target)
        elif anchor and anchor not in headings(text_of(found) if target else text):
            lost.append(target + "#" + anchor)
    return lost


# ---- sentences about the source ------------------------------------------------------------------------------------------


def test_log_lines_are_those_of_the_source():
    """V12: docs/metrics.md names the lines about messages as src/daemon/observer.c writes them, debug, info and warn."""
    rows = re.findall(r"^\| (?:debug|info|warn) \| (.*) \|$", text_of("docs/metrics.md"), re.MULTILINE)
    named = set(re.findall(r"`([^`]+)`", " ".join(rows)))
    written = set(re.findall(r'"([a-z :-]+)"', text_of("src/daemon/observer.c")))
    assert len(rows) == 3 and named - written == set()


def test_buckets_are_those_of_the_source():
    """T5: docs/metrics.md has the bounds of the histograms."""
    bounds = re.search(r"ob_latency_bounds\[[^]]+\] = \{(.*?)\}", text_of("src/core/history.c"), re.DOTALL).group(1)
    sentence = re.search(r"^Histograms have the buckets (.*)\.$", text_of("docs/metrics.md"), re.MULTILINE).group(1)
    units, seconds = {"ms": 0.001, "s": 1, "min": 60, "h": 3600}, []
    for group, unit in re.findall(r"([\d., and]+) (ms|s|min|h)", sentence):
        seconds += [float(number) * units[unit] for number in re.findall(r"[\d.]+", group)]
    assert seconds == pytest.approx([float(number) for number in bounds.split(",") if number.strip()])


# ---- names ---------------------------------------------------------------------------------------------------------------


def tracked():
    listed = subprocess.run(["git", "ls-files", "--cached", "--others", "--exclude-standard"], cwd=ROOT, stdout=subprocess.PIPE,
                            text=True, check=True).stdout.split("\n")
    return [path for path in listed if os.path.isfile(os.path.join(ROOT, path))]


class Tree:
    """What there is to be named."""
    ROLE = re.compile(r"outbox_(producer|relay|operator|auditor|tenant|owner|api|hooks|nobody)")

    def __init__(self):
        self.paths = tracked()
        self.folders = {path[:at] for path in self.paths for at, letter in enumerate(path) if letter == "/"}
        self.files = {os.path.basename(path) for path in self.paths}
        sources = (path for path in self.paths if path.endswith((".c", ".h", ".def", ".sql", ".map")))
        self.words = set(re.findall(r"\w+", " ".join(map(text_of, sources))))
        self.options = set(re.findall(r'^OUTBOX_(?:OPTION|GLOBAL)\(\w+, "([\w-]+)"', text_of("def/commands.def"), re.MULTILINE))
        self.options.add("version")
        self.settings = {"%s.%s" % row for row in re.findall(r'^OUTBOX_SETTING\((\w+), "([\w.]+)"', text_of("def/options.def"),
                                                             re.MULTILINE)}

    def lacks(self, word):
        """False also for what is no name of ours."""
        if re.match(r"(src|tests|tools|def|sql|docs|bench|include|examples)/", word):
            return not fnmatch.filter(self.paths, word) and not fnmatch.filter(self.folders, word)
        if re.fullmatch(r"[\w-]+\.(c|h|sql|def|py)", word):
            return word not in self.files
        if re.fullmatch(r"(relay|log|admin|defaults)\.[a-z_.]+", word):
            return word.replace("defaults.", "delivery.") not in self.settings
        if re.fullmatch(r"(ob|OB|outbox)_\w*[A-Za-z0-9]", word):
            return word not in self.words and not self.ROLE.fullmatch(word)
        return False


@pytest.fixture(scope="module")
def tree():
    return Tree()


def lost_names(text, tree):
    """Files, settings, options and names of the source in backquotes that there are not. Those with a placeholder are not
    looked for, and neither is what the document itself makes."""
    own = set(transcript.FILE.findall(text))
    for span in re.findall(r"`([^`\n]+)`", re.sub(r"^```.*?^```", "", text, flags=re.MULTILINE | re.DOTALL)):
        for word in re.findall(r"[^\s,;()]+", span):
            word = word.partition("::")[0].rstrip(".:/")
            if not re.search(r"[A-Z]{4}|[<>…{}$]", word) and word not in own and tree.lacks(word):
                yield word
        if span.startswith("outbox "):
            yield from ("--" + option for option in re.findall(r"(?<!\S)--([a-z][\w-]*)", span) if option not in tree.options)


@pytest.mark.parametrize("path", [path for path in DOCUMENTS if path != "CHANGELOG.md"])  # which names what is gone
def test_names_are_there(path, tree):
    """M6: a document that names a file, a folder or a function of the source names one that there is."""
    assert list(lost_names(text_of(path), tree)) == []


def test_a_lost_name_is_seen(tree):
    """M6: this file can fail."""
    good = ("`src/core/store.h`, `src/core/`, `tests/unit/*/test_retry.c`, `def/options.def`, `store.h`, `ob_buf_puts`,"
            " `src/x/<store>`, `relay.batch`, `defaults.timeout`, `outbox send --key k`, `pg_dump --clean`, `outbox_messages`")
    assert list(lost_names(good, tree)) == []
    bad = "src/core/stroe.h src/cellar sql/*/x_*.sql stroe.h ob_bfu_puts relay.bacth outbox_massages".split()
    assert list(lost_names(" ".join("`%s`" % word for word in bad), tree)) == bad
    assert list(lost_names("`outbox send --kye k`", tree)) == ["--kye"]


def headings(text):
    """The anchors of a document, as they are made from its headings."""
    text = re.sub(r"^```.*?^```", "", text, flags=re.MULTILINE | re.DOTALL)
    return {re.sub(r"[^\w\- ]", "", title.lower()).replace(" ", "-") for title in re.findall(r"^#+ (.*)$", text, re.MULTILINE)}
