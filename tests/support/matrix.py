"""The table of sinks and what is proved of each, tests/sink/matrix.tsv: read, judged, printed, and as a page of docs/.

Run as a program it prints the table (`make matrix`). It needs nothing but Python, and no build.
"""
import os
import re
import sys

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
SOURCE = "tests/sink/matrix.tsv"
MEMORY = "tests/prove/valgrind.tsv"

# The name in the table, and what it says.
OUTCOMES = {
    "accepted": "the receiver has it, and proved it",
    "retry": "not now; an attempt is spent",
    "limited": "too fast; nothing is spent",
    "terminal": "this message is wrong; dead at once",
    "blocked": "the sink or its set-up is wrong; nothing is spent",
    "unknown": "it was sent, and no verdict came",
}
EVENTS = {
    "killed": "the other side is killed in the middle of a run: nothing is lost",
    "resumes": "it is back, and all goes on by itself",
    "order": "messages of a key arrive in order, through all this",
}
CELLS = {**OUTCOMES, **EVENTS}


def read(path):
    with open(os.path.join(ROOT, path), encoding="utf-8") as file:
        return file.read()


def load(text=None):
    """{sink: {cell: proof}}, in the order of the file."""
    table = {}
    for line in (read(SOURCE) if text is None else text).splitlines():
        if not line.startswith("#"):
            sink, cell, proof = line.split("\t")
            if cell in table.setdefault(sink, {}):
                raise ValueError("%s, %s: there twice" % (sink, cell))
            table[sink][cell] = proof
    return table


def tests_of(path):
    """The tests that a file has: functions of Python, or those that a C program hands to cmocka."""
    text = read(path)
    if path.endswith(".py"):
        return set(re.findall(r"^def (test_\w+)\(", text, re.MULTILINE))
    return set(re.findall(r"^\s+(?:TEST|cmocka_unit_test)\((\w+)\)", text, re.MULTILINE))


def wrong_proof(cell, proof):
    """What is wrong with a test's name, or None."""
    path, _, name = proof.partition("::")
    if not os.path.exists(os.path.join(ROOT, path)):
        return "there is no file %s" % path
    if name not in tests_of(path):
        return "%s has no test %s" % (path, name)
    if cell in OUTCOMES and cell not in read(path).lower():
        return "%s never says %s" % (path, cell)
    return None


def faults(table, sinks):
    """What is wrong with the table, for a build with these sinks; a list of texts."""
    found = ["%s: this build has it, the table does not" % sink for sink in sinks if sink not in table]
    for sink, row in table.items():
        found += ["%s: no such column: %s" % (sink, cell) for cell in row if cell not in CELLS]
        for cell in CELLS:
            proof = row.get(cell, "").strip()
            if not proof or proof.startswith("n/a") and not re.match(r"n/a: \S", proof):
                found.append("%s, %s: neither a test nor a reason" % (sink, cell))
            elif not proof.startswith("n/a"):
                wrong = (wrong_proof(cell, word) for word in proof.split())
                found += ["%s, %s: %s" % (sink, cell, text) for text in wrong if text]
    return found


def mark(proof):
    return "–" if proof.startswith("n/a") else "yes"


def as_text(table):
    lines = ["%-9s" % "sink" + "".join("%9s" % cell for cell in CELLS)]
    lines += ["%-9s" % sink + "".join("%9s" % mark(row[cell]) for cell in CELLS) for sink, row in table.items()]
    for sink, row in table.items():
        lines += ["", sink]
        for cell in CELLS:
            proofs = [row[cell]] if row[cell].startswith("n/a") else row[cell].split()
            lines += ["  %-9s %s" % (cell if proof is proofs[0] else "", proof) for proof in proofs]
    return "\n".join(lines) + "\n"


def memory():
    """The section about valgrind: what tests/prove/valgrind --write wrote."""
    lines = read(MEMORY).splitlines()
    rows = [line.split("\t") for line in lines if not line.startswith("#")]
    return [
        "",
        "## Memory",
        "",
        "`make prove` runs the tests of every sink once more with the sink under valgrind. It fails on any error and any byte",
        "that is definitely lost. `relay` is the whole program on its voyages, `(all)` what all sinks use. What libraries do",
        "is named, each with the reason, in `tests/prove/valgrind.supp`.",
        *[line[2:] for line in lines if line.startswith("# ")],
        "",
        "| %s |" % " | ".join(rows[0]),
        "|" + "---|" * len(rows[0]),
        *["| %s |" % " | ".join(row) for row in rows[1:]],
    ]


def as_page(note):
    """docs/sinks-proof.md."""
    table = load()
    out = [
        "# What is proved of each sink",
        "",
        note,
        "",
        "Each cell has a test that fails when it is not so; `make test` runs them all, `make matrix` prints this.",
        "A dash: it cannot happen there, and the list below says why. What the sinks are: [sinks.md](sinks.md).",
        "",
        "| | |",
        "|---|---|",
        *["| %s | %s |" % pair for pair in CELLS.items()],
        "",
        "| sink | %s |" % " | ".join(CELLS),
        "|---|" + "---|" * len(CELLS),
    ]
    for sink, row in table.items():
        out.append("| [%s](#%s) | %s |" % (sink, sink, " | ".join(mark(row[cell]) for cell in CELLS)))
    for sink, row in table.items():
        out += ["", "## %s" % sink, "", "| | test |", "|---|---|"]
        for cell in CELLS:
            proof = row[cell]
            said = proof[5:] if proof.startswith("n/a") else "<br>".join("`%s`" % word for word in proof.split())
            out.append("| %s | %s |" % (cell, said))
    out += memory()
    return "\n".join(out) + "\n"


if __name__ == "__main__":
    table = load()
    wrong = faults(table, [])
    print(as_text(table) if not wrong else "\n".join(wrong))
    sys.exit(1 if wrong else 0)
