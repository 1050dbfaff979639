"""The checks of the tree reject what they are there to reject.

Proves: include direction, no machine paths, tests that name what they prove, generated documents that are compared to the last
line, sinks known only in src/sink (style).
"""
import importlib.machinery
import importlib.util
import os
import re
import subprocess

import pytest

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))


def load(name):
    loader = importlib.machinery.SourceFileLoader(name.replace("-", "_"), os.path.join(ROOT, "tools", name))
    module = importlib.util.module_from_spec(importlib.util.spec_from_loader(loader.name, loader))
    loader.exec_module(module)
    return module


includes = load("check-includes")
tree = load("check-tree")
words = load("check-words")
docs = load("gen-docs")


@pytest.mark.parametrize("path, quote, name", [
    ("src/base/buf.c", '"', "core/store.h"),
    ("src/core/retry.c", '"', "store/pg/store.h"),
    ("src/core/retry.c", "<", "libpq-fe.h"),
    ("src/core/retry.c", "<", "time.h"),
    ("src/core/retry.c", '"', "base/clock.h"),
    ("src/core/retry.c", "<", "sys/epoll.h"),
    ("src/core/retry.c", "<", "netdb.h"),
    ("src/lib/store.c", "<", "mosquitto.h"),
    ("include/outbox/outbox.h", "<", "jansson2.h"),
    ("src/store/pg/claim.c", '"', "store/sqlite/store.h"),
    ("src/store/pg/claim.c", "<", "sqlite3.h"),
    ("src/store/sqlite/claim.c", '"', "lib/handle.h"),
    ("src/lib/handle.c", "<", "libpq-fe.h"),
    ("src/lib/handle.c", '"', "cli/command.h"),
    ("src/cli/main.c", "<", "sqlite3.h"),
    ("src/store/pg/claim.c", '"', "../../base/buf.h"),
    ("src/garage/car.c", '"', "base/buf.h"),
    ("include/outbox/outbox.h", '"', "base/buf.h"),
    ("include/outbox/outbox.h", "<", "libpq-fe.h"),
    ("examples/shop.c", '"', "base/buf.h"),
])
def test_wrong_includes_are_rejected(path, quote, name):
    assert list(includes.offences(path, quote, name))


@pytest.mark.parametrize("path, quote, name", [
    ("src/core/retry.c", '"', "base/buf.h"),
    ("src/core/retry.c", '"', "core/store.h"),
    ("src/core/retry.c", "<", "string.h"),
    ("src/core/retry.c", "<", "outbox/outbox.h"),
    ("src/store/pg/claim.c", "<", "libpq-fe.h"),
    ("src/store/pg/claim.c", '"', "pg_migrations.h"),
    ("src/store/sqlite/claim.c", "<", "sqlite3.h"),
    ("src/lib/pq.c", "<", "outbox/pq.h"),
    ("src/cli/main.c", '"', "lib/handle.h"),
    ("include/outbox/pq.h", "<", "libpq-fe.h"),
    ("tests/contract/fixture_pg.c", "<", "libpq-fe.h"),
    ("examples/shop.c", "<", "outbox/pq.h"),
])
def test_right_includes_are_accepted(path, quote, name):
    assert not list(includes.offences(path, quote, name))


@pytest.mark.parametrize("line", ['#include <netdb.h>', '#include<netdb.h>', '  # include\t"core/store.h"', '#include"core/store.h"'])
def test_includes_are_found_however_they_are_written(line):
    assert includes.INCLUDE.match(line)


def test_machine_paths_are_found():
    for place in ("ho" + "me/ann/x", "ro" + "ot/x", "wo" + "rk/main"):
        assert list(tree.check("docs/a.md", "see /%s" % place))
    assert not list(tree.check("docs/a.md", "see src/network/main, /usr/lib and https://x.org/wo" + "rk/"))


@pytest.mark.parametrize("path, line", [
    ("src/config/check.c", 'if (strcmp(sink->ops->kind, "http") == 0)'),
    ("src/cli/cmd_doctor.c", "/* Kafka waits for longer. */"),
    ("src/daemon/serve.c", "ob_kafka_poll();"),
    ("src/core/retry.h", "enum { OB_RETRY_WHATSAPP };"),
    ("def/options.def", '"how long one delivery may take (smtp: longer)"'),
])
def test_sinks_are_known_by_name_only_in_their_folders(path, line):
    assert len(list(tree.check(path, line))) == 1
    assert not list(tree.check("src/sink/kafka/kafka.c", line))
    assert not list(tree.check("docs/sinks.md", line))


def test_ordinary_words_are_no_sinks():
    for line in ('ob_json_text(json, "file", file);', "for the sake of slack_ns", "redistribute", "<stdout>", "NULL", "http://x"):
        assert not list(tree.check("src/config/check.c", line))


def test_tests_must_say_what_they_prove():
    nameless = ("static void a(void **s)\n{\n}\nconst struct CMUnitTest tests[] = {\n    cmocka_unit_test(a),\n};\n")
    assert list(tree.check("tests/unit/x.c", nameless))
    assert not list(tree.check("tests/unit/x.c", "/* M4 */\n" + nameless))
    assert not list(tree.check("tests/unit/x.c", "/* x.c. Proves: a style rule. */\n\n" + nameless))
    assert list(tree.check("tests/system/test_x.py", "def test_a(db):\n    pass\n\n\n# M4\ndef test_b(db):\n    pass\n"))
    assert not list(tree.check("tests/system/test_x.py", 'def test_a(db):\n    """V1: x"""\n'))
    assert not list(tree.check("tests/system/test_x.py", "def test_m4_a(db):\n    pass\n"))
    row = 'const struct contract_test x_tests[] = {\n    {"%s", run, NEEDS_NOTHING},\n};\n'
    assert list(tree.check("tests/contract/x.c", row % "keys are unique"))
    assert list(tree.check("tests/contract/x.c", row % "M44: keys are unique"))
    assert not list(tree.check("tests/contract/x.c", row % "M4 S4: keys are unique"))


def offences(path, text):
    return [text for _, text in tree.check(path, text)]


@pytest.mark.parametrize("registered", ["cmocka_unit_test(a)", "cmocka_unit_test_setup(a, b)", "TEST(a)", 'FX_TEST("a", a)'])
def test_a_test_is_found_however_it_is_registered(registered):
    text = "static void a(void **s)\n{\n}\nint main(void)\n{\n    const struct CMUnitTest tests[] = {\n        %s,\n    };\n}\n"
    assert offences("tests/unit/x.c", text % registered) == ['the test "a" does not say which requirement it proves']
    assert not offences("tests/unit/x.c", "/* M4 */\n" + text % registered)


def test_an_id_leads_somewhere():
    missing = "M%d" % 99
    known = 'def test_a(db):\n    """M4%s: x"""\n'
    assert offences("tests/system/test_x.py", known % "") == []
    assert offences("tests/system/test_x.py", known % (" " + missing)) == [missing + " is no requirement of docs/requirements.md"]
    assert offences("src/core/x.c", "/* %s: order */" % missing)
    assert offences("include/outbox/x.h", "/* M4: order */")


def test_a_string_of_a_test_proves_nothing():
    assert offences("tests/system/test_x.py", 'def test_a(db):\n    assert "M4" != db\n')


def test_a_file_of_tests_has_some():
    assert offences("tests/system/test_x.py", "def tset_a(db):\n    pass\n")
    assert offences("tests/unit/test_x.c", "static void a(void **s)\n{\n}\n")


def test_what_nothing_proves_is_told(monkeypatch):
    """The table of docs/requirements.md has every id, and says which have no test."""
    proofs = tree.proofs
    monkeypatch.setattr(proofs, "files", lambda: ["tests/unit/core/test_retry.c", "docs/sql.md"])
    monkeypatch.setattr(proofs, "read", lambda path: "/* Proves: M4. */")
    rows = proofs.page_part().split("\n")
    assert len(rows) == 2 + len(proofs.KNOWN)
    assert "| M4 | unit/core |" in rows and "| M10 | **nothing yet** |" in rows


def test_a_source_with_a_nul_byte_is_refused(tmp_path, monkeypatch, capsys):
    (tmp_path / "a.c").write_bytes(b"int a;\0\n")
    (tmp_path / "corpus").write_bytes(b"\0")
    monkeypatch.setattr(tree, "ROOT", str(tmp_path))
    monkeypatch.setattr(tree.proofs, "files", lambda: ["a.c", "corpus"])
    assert tree.main() == 1
    assert capsys.readouterr().out.startswith("a.c: holds a NUL byte")


def test_every_code_that_sql_raises_is_in_the_table():
    """Ops: a code of ours that is not in errors.def has no name, no exit code and no line in docs/errors.md."""
    with open(os.path.join(ROOT, "include", "outbox", "errors.def")) as file:
        known = set(re.findall(r'"(OB\d{3})"', file.read()))
    raised = set()
    for folder, _, names in os.walk(os.path.join(ROOT, "sql")):
        for name in names:
            with open(os.path.join(folder, name)) as file:
                raised |= set(re.findall(r"\bOB\d{3}\b", file.read()))
    assert raised and raised <= known


def test_every_fuzz_target_has_its_corpus():
    """tools/fuzz runs what has one."""
    folder = os.path.join(ROOT, "tests", "fuzz")
    with open(os.path.join(folder, "meson.build")) as file:
        targets = re.findall(r"^  '(\w+)': \[", file.read(), re.MULTILINE)
    assert targets and sorted(targets) == sorted(os.listdir(os.path.join(folder, "corpus")))


# ---- generated documents ---------------------------------------------------------------------------------------------


def altered(text, part):
    """With a line less, in the named part or anywhere."""
    start = text.index("<!-- %s: " % part) if part else 0
    lines = text[start:].split("\n")
    return text[:start] + "\n".join(lines[:4] + lines[5:])


@pytest.mark.parametrize("path, part", [(path, None) for path in docs.GENERATED]
                         + [(path, part) for path, parts in docs.PARTS.items() for part in parts])
def test_every_generated_line_is_compared(monkeypatch, path, part):
    """gen-docs --check is red when a line of it is missing."""
    read = docs.read
    text = altered(read(path), part)
    assert text != read(path)
    monkeypatch.setattr(docs, "read", lambda other: text if other == path else read(other))
    assert docs.wanted(path) == read(path) != text


def test_what_nothing_generates_any_more_is_told(monkeypatch):
    assert list(docs.left_over()) == []
    path, schema = "docs/errors.md", next(path for path in docs.GENERATED if path.startswith("docs/json/"))
    monkeypatch.delitem(docs.GENERATED, path)
    monkeypatch.delitem(docs.GENERATED, schema)
    monkeypatch.delitem(docs.PARTS, "docs/sql.md", raising=False)
    assert {path, schema} <= {path for path, _ in docs.left_over()}


def test_a_section_that_no_page_shows_is_refused(monkeypatch):
    monkeypatch.delitem(docs.SECTIONS, "log")
    with pytest.raises(SystemExit, match="log"):
        docs.options()


def test_settings_are_read_by_their_place():
    """What tools/gen-docs takes for the members of a setting are those of the struct, in its order."""
    with open(os.path.join(ROOT, "include", "outbox", "sink.h")) as file:
        struct = re.search(r"struct outbox_sink_setting \{(.*?)\n\};", file.read(), re.DOTALL).group(1)
    struct = re.sub(r"/\*.*?\*/", "", struct, flags=re.DOTALL)
    members = [re.search(r"\w+$", part.strip()).group() for line in struct.split(";") if line.strip() for part in line.split(",")]
    assert members == docs.SETTING_FIELDS


def embed(folder, out):
    subprocess.run([os.path.join(ROOT, "tools", "embed-sql"), "--depfile", str(out / "x.d"), "--source", str(out / "x.c"),
                    "--header", str(out / "x.h"), "ob_x", str(folder)], check=True)


def test_embedding_notices_new_files_and_accepts_large_ones(tmp_path):
    folder, out = tmp_path / "sql", tmp_path / "out"
    folder.mkdir(), out.mkdir()
    embed(folder, out)
    assert "ob_x_count = 0" in (out / "x.c").read_text()
    (folder / "big.sql").write_text("SELECT 'ä \"quoted\"';\n" * 20000)
    embed(folder, out)
    assert str(folder / "big.sql") in (out / "x.d").read_text()
    assert str(folder) + " " in (out / "x.d").read_text()
    for compiler in ("gcc", "clang"):
        subprocess.run([compiler, "-std=gnu11", "-Wall", "-Wextra", "-Werror", "-fsyntax-only",
                        "-I", os.path.join(ROOT, "src"), str(out / "x.c")], check=True)


def test_embedding_fills_in_limits(tmp_path):
    folder, out = tmp_path / "sql", tmp_path / "out"
    folder.mkdir(), out.mkdir()
    (folder / "x.sql").write_text("@topic_max@ @lease_min_s@ @moment_max_at@ '@lease_range@' @key_range@ @schema@ @topic@\n")
    embed(folder, out)
    assert "255 0.1 9999-12-31 23:59:59.999999+00 '100 ms to 24 h' 1 to 512 bytes @schema@ @topic@" in (out / "x.c").read_text()
    assert "limits.def" in (out / "x.d").read_text()
    (folder / "x.sql").write_text("@nothing_max@\n")
    with pytest.raises(subprocess.CalledProcessError):
        embed(folder, out)


def test_generated_tables_read_rows_of_any_layout(tmp_path, monkeypatch):
    monkeypatch.setattr(docs, "ROOT", str(tmp_path))
    (tmp_path / "x.def").write_text('/* ROW(not, "me") */\nROW(a, -1, "one, (two) \\"three\\"",\n    "four " "five")\n'
                                    'ROW(b, 2, "", "\\\\")\n')
    assert list(docs.rows("x.def", "ROW")) == [["a", "-1", 'one, (two) "three"', "four five"], ["b", "2", "", "\\"]]
    for wrong in ('ROW(a, "no end"\n', 'ROW(a, 1) ROW(b, 2)\n', '#define X ROW(a, 1)\n'):
        (tmp_path / "x.def").write_text(wrong)
        with pytest.raises(SystemExit):
            list(docs.rows("x.def", "ROW"))


@pytest.mark.parametrize("path, text, found", [
    ("src/a.c", 'say("the sink is left alone");', 1), ("src/a.c", 'say("the sink is left "\n    "alone");', 1),
    ("src/a.c", '/* is left alone */ say("breaker open");', 0), ("def/a.def", 'X(a, "who we are")', 1),
    ("sql/a.sql", "raise exception 'mend it'; -- mend", 1), ("docs/a.md", "The store is looked after.\n", 1),
    ("docs/a.md", "A recommendation for goods.\n", 0)])
def test_odd_phrases_are_found_in_what_is_printed(path, text, found):
    """N6: operators read plain English: in strings, SQL texts and documents; comments may say what they like."""
    assert len(list(words.offences(path, text))) == found
