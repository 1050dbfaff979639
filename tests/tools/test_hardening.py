"""What is installed is built to be hard to take over: the ELF files themselves are looked at.

Proves: S3 (nobody gets in by another way than the API; here: not through the process).
"""
import os
import re
import subprocess

import pytest

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
BUILD = os.path.join(ROOT, "build")
PROGRAM = os.path.join(BUILD, "src", "cli", "outbox")
LIBRARY = os.path.join(BUILD, "src", "lib", "liboutbox.so")
BOTH = pytest.mark.parametrize("path", [PROGRAM, LIBRARY], ids=["outbox", "liboutbox"])


def readelf(*args):
    return subprocess.run(["readelf", "-W", *args], stdout=subprocess.PIPE, check=True, text=True).stdout


@BOTH
def test_tables_of_the_linker_are_read_only(path):
    """S3: full RELRO: the segment is there, and everything is bound before main."""
    assert "GNU_RELRO" in readelf("-l", path)
    assert re.search(r"\(FLAGS\).*BIND_NOW|\(FLAGS_1\).*\bNOW\b|\(BIND_NOW\)", readelf("-d", path))


@BOTH
def test_no_stack_is_executable(path):
    """S3: GNU_STACK says RW, not RWE; and no segment can be written and run."""
    segments = readelf("-l", path)
    assert re.search(r"GNU_STACK.* RW ", segments)
    assert not re.search(r"^\s+LOAD.* RWE ", segments, re.M)


def test_the_program_moves():
    """S3: position-independent, so that addresses differ with every start."""
    assert re.search(r"Type:\s+DYN", readelf("-h", PROGRAM))


@BOTH
def test_copies_and_frames_are_guarded(path):
    """S3: stack protector and FORTIFY leave their functions among the symbols that are needed."""
    symbols = readelf("--dyn-syms", path)
    assert "__stack_chk_fail" in symbols
    assert re.search(r"__\w+_chk\b", symbols.replace("__stack_chk_fail", ""))


@BOTH
def test_jumps_are_guarded_where_the_processor_can(path, tmp_path):
    """S3: CET: each function that can be called indirectly begins with endbr64. The mark on the whole file depends on the C
    library, so it is asked for only where a program of one line gets it, too."""
    if os.uname().machine != "x86_64":
        pytest.skip("CET is of x86-64")
    code = subprocess.run(["objdump", "-d", "--section=.text", path], stdout=subprocess.PIPE, check=True, text=True).stdout
    assert code.count("endbr64") > 100
    (tmp_path / "one.c").write_text("int main(void) { return 0; }\n")
    one = str(tmp_path / "one")
    subprocess.run(["cc", "-fcf-protection", "-o", one, str(tmp_path / "one.c")], check=True)
    if "IBT" in readelf("-n", one):
        assert "IBT" in readelf("-n", path)
