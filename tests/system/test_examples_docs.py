"""The examples of the documents, played as their readers would: what is printed is what comes.

Proves: docs/*.md (S5 roles, V14 erasure, Y4 hooks, V11 configuration, M1 M4 M5 M6 M10 the SQL API). When one fails because the product was
changed on purpose: /usr/bin/python3 tests/support/transcript.py docs/NAME.md, and read what it wrote.
"""
import os
import re

import pytest

from support import transcript
from support.database import ROOT

PLAYED = ["sql.md", "worker.md", "hooks.md", "retention.md", "roles.md", "configuration.md", "relay.md"]


def text_of(path):
    with open(os.path.join(ROOT, path), encoding="utf-8") as file:
        return file.read()


@pytest.mark.parametrize("name", PLAYED)
def test_examples(pg_server, name):
    """M6 S5 Y4 V11 V14"""
    steps, wrong = transcript.play(text_of("docs/" + name), pg_server)
    assert any(step.expected for step in steps)
    assert not wrong, "\n".join("docs/%s:%d prints\n%s\nbut there came\n%s" % (name, step.line, step.expected, step.got)
                                for step in wrong)


def test_a_wrong_example_is_seen(pg_server):
    """M6: this file can fail: by another text, by an error, by ids that are one here and two there."""
    same, other = "01a1e003-d7fc-76b7-afe4-6a4e428fd820", "01a1e003-d810-73d1-a1ff-1f0c2b478601"
    block = "```sql\n%s;\n```\n"
    ids = block % "select gen_random_uuid() as a, gen_random_uuid() as b" + "```text\n a | b\n---+---\n %s | %s\n```\n"
    page = (block % "select 1 as a" + "```text\n a\n---\n 1\n```\n" + block % "select 1 as b" + "```text\n a\n---\n 1\n```\n"
            + block % "select 1 / 0" + ids % (same, other) + ids % (same, same))
    steps, wrong = transcript.play(page, pg_server)
    assert [steps.index(step) for step in wrong] == [1, 2, 4]


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


@pytest.mark.parametrize("name", PLAYED + ["views.md"])
def test_links_lead_somewhere(name):
    """M6: files and headings that a document points at are there."""
    lost = []
    for target, _, anchor in re.findall(r"\]\(([^)#\s]*)(#([^)\s]*))?\)", text_of("docs/" + name)):
        if target.startswith("http"):
            continue
        path = os.path.normpath(os.path.join("docs", target or name))
        if not os.path.exists(os.path.join(ROOT, path)):
            lost.append(target)
        elif anchor and anchor not in headings(text_of(path)):
            lost.append(target + "#" + anchor)
    assert not lost


def headings(text):
    """The anchors of a document, as they are made from its headings."""
    text = re.sub(r"^```.*?^```", "", text, flags=re.MULTILINE | re.DOTALL)
    return {re.sub(r"[^\w\- ]", "", title.lower()).replace(" ", "-") for title in re.findall(r"^#+ (.*)$", text, re.MULTILINE)}
