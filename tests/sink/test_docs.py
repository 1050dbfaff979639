"""docs/sinks.md says what the adapters' tables say. Proves: N3; the page is made from the sources, this looks at the build.
"""
import json
import os
import re
import subprocess

import pytest

from support.database import ROOT, run_cli
from support.sinkdrive import PROGRAM, needs_sinks

pytestmark = needs_sinks

SECTION = re.compile(r"^### (\w+)\n(.*?)(?=^### |^<!-- end)", re.MULTILINE | re.DOTALL)
ROW = re.compile(r"^\| `([^`]*?)(?:\.…)?` \| (.*?) \| (.*?) \| (.*) \|$", re.MULTILINE)


def sections():
    with open(os.path.join(ROOT, "docs", "sinks.md"), encoding="utf-8") as file:
        return dict(SECTION.findall(file.read()))


def words(row):
    """A setting as the page has it: name, value, default, text."""
    value = " or ".join("`%s`" % word for word in row["choices"].split()) if row["type"] == "choices" else row["type"]
    return (row["name"], value + ("; secret" if row["secret"] else ""),
            "required" if row["required"] else "`%s`" % row["fallback"] if row["fallback"] else "", row["doc"])


def described(kind):
    done = subprocess.run([PROGRAM, "--kind", kind, "--describe"], stdout=subprocess.PIPE, check=True)
    return [json.loads(line) for line in done.stdout.splitlines()]


@pytest.mark.parametrize("kind", json.loads(run_cli("version", "--json").stdout)["sinks"])
def test_every_setting_is_on_the_page(kind):
    rows = ROW.findall(sections()[kind])
    said = [(name, value, default, doc.replace("\\|", "|")) for name, value, default, doc in rows]
    assert said == [words(row) for row in described(kind)]


@pytest.mark.parametrize("kind", json.loads(run_cli("version", "--json").stdout)["sinks"])
def test_no_setting_has_a_name_of_the_relays(kind):
    """Both stand side by side in an entry of `sinks`."""
    with open(os.path.join(ROOT, "def", "options.def"), encoding="utf-8") as file:
        taken = set(re.findall(r'^OUTBOX_SETTING\((?:sinks|delivery), "([^"]+)"', file.read(), re.MULTILINE))
    assert "burst" in taken and not taken & {row["name"] for row in described(kind)}
