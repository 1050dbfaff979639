#!/usr/bin/env python3
"""Which tests prove which requirement.

    tools/proofs.py            every id of docs/requirements.md, how many tests name it, and where they are
    tools/proofs.py M10 ...    the tests that name these

A test names ids (such as M4) in its own name, in the comment, docstring or table row next to it, or, for a whole file, in the
"Proves:" line of its head. tools/check-tree rejects a test that proves nothing, and an id that is none; tools/gen-docs
writes the table at the end of docs/requirements.md.
"""
import ast
import os
import re
import subprocess
import sys

ROOT = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
REQUIREMENTS = "docs/requirements.md"


def read(path):
    with open(os.path.join(ROOT, path), encoding="utf-8") as file:
        return file.read()


# An id leads somewhere: those that the document describes count, and no others.
KNOWN = re.findall(r"^\| ([A-Z]\d+) \| \S", read(REQUIREMENTS).split("<!-- proofs:")[0], re.MULTILINE)
IDENTIFIER = "(?:%s)" % "|".join(KNOWN)
ID = re.compile(r"(?<![A-Za-z0-9])" + IDENTIFIER + r"(?![A-Za-z0-9])")
ID_IN_NAME = re.compile(r"(?<![a-z0-9])" + IDENTIFIER.lower() + r"(?![a-z0-9])")
# What looks like an id in a text for people: not in a path, a string of its own, or code.
LOOKS_LIKE_ONE = re.compile(r"""(?<![\w./"'%$<{-])[VMSYTN]\d{1,2}(?![\w"'(=\[}])""")

C_TABLE = re.compile(r"^\s*(?:static )?const struct CMUnitTest \w+\[\] = \{(.*?)^\s*\};", re.MULTILINE | re.DOTALL)
C_ENTRY = re.compile(r'\b(?:cmocka_unit_test\w*|[A-Z][A-Z_]*)\(\s*(?:"((?:[^"\\]|\\.)*)",\s*)?(\w+)')
CONTRACT_TABLE = re.compile(r"^const struct contract_test \w+\[\] = \{(.*?)^\};", re.MULTILINE | re.DOTALL)
CONTRACT_ROW = re.compile(r'^\s*\{\s*"([^"]*)",\s*\w+', re.MULTILINE)


def ids_in(text, name=""):
    return set(ID.findall(text)) | {word.upper() for word in ID_IN_NAME.findall(name.replace("_", " "))}


def around(text, start):
    """The comment or decorators above the line of a place, the line, and the docstring or comment under it."""
    lines = text.split("\n")
    first = last = index = text.count("\n", 0, start)
    while first > 0 and re.match(r"^\s*(/?\*|//|#|@)", lines[first - 1]):
        first -= 1
    while last < index + 4 and last + 1 < len(lines) and not re.match(r"^\S", lines[last + 1]):
        last += 1
    return "\n".join(lines[first:last + 1])


def python_tests(text):
    """(function, the comments above it and its decorators) for every test of a file."""
    lines = text.split("\n")
    for function in ast.parse(text).body:
        if isinstance(function, (ast.FunctionDef, ast.AsyncFunctionDef)) and function.name.startswith("test_"):
            first = min([function.lineno] + [decorator.lineno for decorator in function.decorator_list]) - 1
            while first > 0 and lines[first - 1].startswith("#"):
                first -= 1
            yield function, "\n".join(lines[first:function.lineno])


def head_of(text):
    """What the "Proves:" line of the first comment or docstring says, to the end of its paragraph; None without one."""
    found = re.search(r"Proves:(.*?)(?:\n[ *]*\n|\*/|\"\"\"|\Z)", text[:1500], re.DOTALL)
    return found.group(1) if found else None


def own_ids(path, text):
    """(name of the test, the ids it names itself) for every test of a file."""
    if path.endswith(".spec"):
        yield os.path.basename(path), ids_in(text[:1500])
    elif path.endswith(".py"):
        for function, above in python_tests(text):
            yield function.name, ids_in(above + "\n" + (ast.get_docstring(function) or ""), function.name)
    else:
        for table in CONTRACT_TABLE.findall(text):
            for name in CONTRACT_ROW.findall(table):
                yield name, ids_in(name.split(":")[0])
        for table in C_TABLE.findall(text):
            for said, function in C_ENTRY.findall(table):
                place = re.search(r"^static void %s\(" % function, text, re.MULTILINE)
                near = around(text, place.start()) if place else ""
                yield said or function, ids_in(near + "\n" + said, function)


def tests_of(path, text):
    """(name of the test, the ids that it proves, whether something says what it proves) for every test of a file."""
    head = head_of(text)
    for name, ids in own_ids(path, text):
        yield name, ids or ids_in(head or ""), bool(ids) or head is not None


def proved_by(path, text):
    """(id, name of the test or None for the file as a whole) for every proof in a file."""
    left = ids_in(head_of(text) or "")
    for name, ids, _ in tests_of(path, text):
        yield from ((identifier, name) for identifier in ids)
        left -= ids
    yield from ((identifier, None) for identifier in left)


def is_test(path):
    return path.startswith("tests/") and path.count("/") > 1 and path.endswith((".c", ".py", ".spec"))


def unknown_ids(text):
    """What looks like an id and is none."""
    return sorted(set(LOOKS_LIKE_ONE.findall(text)) - set(KNOWN))


def files():
    listed = subprocess.run(["git", "ls-files", "-z", "--cached", "--others", "--exclude-standard"], cwd=ROOT,
                            stdout=subprocess.PIPE, check=True).stdout.decode()
    return sorted(path for path in listed.split("\0") if path and os.path.isfile(os.path.join(ROOT, path)))


def proofs():
    """id: [(path, name of the test)], for every id of the document."""
    found = {identifier: [] for identifier in KNOWN}
    for path in filter(is_test, files()):
        for identifier, name in proved_by(path, read(path)):
            found[identifier].append((path, name))
    return found


def room_of(path):
    """tests/unit/core/test_retry.c: unit/core; tests/system/test_cli.py: system."""
    parts = path.split("/")[1:-1]
    return "/".join(parts[:2] if parts[:1] == ["unit"] else parts[:1])


def page_part():
    """For docs/requirements.md. It names rooms, not numbers: a table that every new test changed would be in everybody's way."""
    out = ["| id | proved in `tests/` |", "|---|---|"]
    for identifier, tests in proofs().items():
        rooms = sorted({room_of(path) for path, _ in tests})
        out.append("| %s | %s |" % (identifier, ", ".join(rooms) if rooms else "**nothing yet**"))
    return "\n".join(out)


def main():
    found = proofs()
    for identifier in sys.argv[1:]:
        if identifier not in found:
            sys.exit("%s: no such id in %s" % (identifier, REQUIREMENTS))
        for path, name in found[identifier]:
            print("%s %s%s" % (identifier, path, "::" + name if name else ""))
    if not sys.argv[1:]:
        for identifier, tests in found.items():
            print("%-4s %4d tests  %s" % (identifier, len(tests), " ".join(sorted({path[6:] for path, _ in tests}))))


if __name__ == "__main__":
    main()
