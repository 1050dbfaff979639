"""tools/check-abi tells compatible changes of the public headers from those that break programs and plugins.

Proves: V5 (an adapter interface that lasts): the promise in tests/abi is kept, or the check is red.
"""
import os
import shutil
import subprocess
import xml.etree.ElementTree as xml

import pytest

from test_checks import ROOT, load

abi = load("check-abi")


def changed(tmp_path, header, old, new):
    """The template sink, built from headers with one change; what the check says about it."""
    include = tmp_path / "include"
    shutil.copytree(os.path.join(ROOT, "include"), include)
    path = include / "outbox" / header
    text = path.read_text()
    assert text.count(old) == 1, old
    path.write_text(text.replace(old, new))
    plugin = tmp_path / "datagram.so"
    subprocess.run(["gcc", "-g", "-shared", "-fPIC", "-fvisibility=hidden", "-std=gnu11", "-D_GNU_SOURCE", "-I", include,
                    os.path.join(ROOT, "examples", "sink", "datagram.c"), "-o", plugin], check=True)
    tree = abi.describe(str(plugin), str(tmp_path / "sink.abi"), str(include))
    return list(abi.shape_offences(tree)), abi.compare("sink.abi", tree, str(tmp_path))


TIMEOUT = "    int64_t timeout_us; /* a delivery that takes longer is cancelled; 0: unknown */\n"
NO_PADDING = "    unsigned char reserved[7]; /* zero */\n};\n\n/* What the host offers"


@pytest.mark.parametrize("header, old, new, says", [
    ("sink.h", TIMEOUT, "    int32_t timeout_us;\n", "timeout_us"),
    ("sink.h", TIMEOUT, "", "timeout_us"),
    ("sink.h", TIMEOUT, "    int64_t patience_us;\n" + TIMEOUT, "patience_us"),
    ("sink.h", "    OUTBOX_SINK_RETRY, ", "    OUTBOX_SINK_LATER, OUTBOX_SINK_RETRY, ", "OUTBOX_SINK_LATER"),
    ("outbox.h", "    char text[512]; ", "    char text[600]; ", "outbox_error"),
    ("outbox.h", "    char text[512]; ", "    int line; char text[512]; ", "outbox_error"),
], ids=["retyped", "removed", "inserted", "renumbered", "fixed", "fixed-grown"])
def test_what_breaks_others_is_red(tmp_path, header, old, new, says):
    _, difference = changed(tmp_path, header, old, new)
    assert says in difference


@pytest.mark.parametrize("header, old, new", [
    ("sink.h", TIMEOUT, TIMEOUT + "    int64_t patience_us;\n"),
    ("sink.h", NO_PADDING, NO_PADDING.replace("};", "    int64_t deadline_us;\n};", 1)),
    ("sink.h", "    OUTBOX_SINK_NOT_SENT, ", "    OUTBOX_SINK_NOT_SENT, OUTBOX_SINK_LATER, "),
], ids=["struct", "element", "enum"])
def test_what_is_appended_is_fine(tmp_path, header, old, new):
    assert changed(tmp_path, header, old, new) == ([], "")


@pytest.mark.parametrize("header, old, new, says", [
    ("sink.h", TIMEOUT, TIMEOUT + "    int patience_s;\n", "struct outbox_sink_host has padding behind patience_s"),
    ("sink.h", "struct outbox_sink_host {\n    size_t size;\n", "struct outbox_sink_host {\n    size_t bytes;\n",
     "struct outbox_sink_host does not begin with its size"),
], ids=["padding", "size"])
def test_shapes_that_cannot_grow_are_red(tmp_path, header, old, new, says):
    offences, _ = changed(tmp_path, header, old, new)
    assert says in " ".join(offences)


def test_a_member_in_the_padding_is_not_taken_for_appended(tmp_path):
    """It has no place of its own there: an older caller's padding would be read as its value."""
    text = """<abi><class-decl name='outbox_x' size-in-bits='128' id='x'>
      <data-member layout-offset-in-bits='0'><var-decl name='size' type-id='t'/></data-member>
      <data-member layout-offset-in-bits='64'><var-decl name='a' type-id='t'/></data-member>%s</class-decl></abi>"""
    old = xml.ElementTree(xml.fromstring(text % ""))
    new = xml.ElementTree(xml.fromstring(
        text % "<data-member layout-offset-in-bits='96'><var-decl name='b' type-id='t'/></data-member>"))
    abi.without_appended(new, old)
    assert [name for _, name, _ in abi.members(abi.structs(new)["outbox_x"])] == ["size", "a", "b"]


def test_the_symbol_list_is_the_headers(tmp_path):
    """No wildcard, nothing missing, nothing that no header declares."""
    script = tmp_path / "outbox.map"
    library = os.path.join(abi.BUILD, abi.OBJECTS["liboutbox.abi"])
    with open(os.path.join(ROOT, "src", "lib", "outbox.map")) as file:
        text = file.read()
    script.write_text(text)
    assert list(abi.symbol_offences(abi.HEADERS, str(script), library)) == []
    script.write_text(text.replace("        outbox_nack;\n", "        outbox_n*;\n"))
    assert list(abi.symbol_offences(abi.HEADERS, str(script), library)) == [
        "src/lib/outbox.map lacks outbox_nack, which the public headers declare",
        "src/lib/outbox.map has outbox_n*, which no public header declares"]
