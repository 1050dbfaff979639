"""liboutbox as a distribution would ship it: installed, found by pkg-config, compiled against, run.

Proves: M1 M4 M6 (the example), and that the library exports its API and nothing else, under versions.
"""
import glob
import os
import re
import shutil
import subprocess

import pytest

from support.database import BUILD, ROOT

EXAMPLE = os.path.join(ROOT, "examples", "enqueue_pq.c")
COMPILERS = [compiler for compiler in ("gcc", "clang") if shutil.which(compiler)]


def run(*command, **more):
    done = subprocess.run([str(word) for word in command], stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True,
                          timeout=120, **more)
    assert done.returncode == 0, "%s\n%s" % (" ".join(map(str, command)), done.stdout)
    return done.stdout


@pytest.fixture(scope="module")
def prefix(tmp_path_factory):
    """The library in a prefix of its own: installed aside, and its pkg-config file told so."""
    folder = tmp_path_factory.mktemp("destdir")
    run("meson", "install", "--no-rebuild", "-C", BUILD, "--destdir", folder)
    (found,) = folder.glob("**/pkgconfig/outbox.pc")
    found.write_text(re.sub(r"^prefix=", "prefix=%s" % folder, found.read_text(), flags=re.M))
    (include,) = folder.glob("**/include")
    return {"path": str(found.parent), "libdir": str(found.parent.parent), "include": str(include)}


def pkg_config(prefix, *args):
    return run("pkg-config", *args, env={**os.environ, "PKG_CONFIG_PATH": prefix["path"]}).split()


@pytest.mark.parametrize("compiler", COMPILERS)
@pytest.mark.parametrize("static", [False, True], ids=["shared", "static"])
def test_example(prefix, db, tmp_path, compiler, static):
    """M1 M4: the example compiles without a warning and does what it says; run twice, it is one message."""
    program = tmp_path / "example"
    flags = pkg_config(prefix, "--cflags", "--libs", "outbox", "libpq")
    if static:
        # Only our own library is static: the archive instead of -loutbox, before what it needs.
        flags = [prefix["libdir"] + "/liboutbox.a" if flag == "-loutbox" else flag for flag in flags]
        flags += [flag for flag in pkg_config(prefix, "--libs", "--static", "outbox") if flag == "-lzstd"]
    run(compiler, "-std=c11", "-Wall", "-Wextra", "-Wpedantic", "-Werror", EXAMPLE, "-o", program, *flags)
    env = {**os.environ, "LD_LIBRARY_PATH": "" if static else prefix["libdir"]}
    first = run(program, db.conninfo(), "42", env=env)
    second = run(program, db.conninfo(), "42", env=env)
    id_ = re.search(r"enqueued ([0-9a-f-]{36}), seq 1", first).group(1)
    assert "was enqueued before: %s, seq 1" % id_ in second
    assert db.sql("select id::text, topic, key, payload from outbox.messages") == [
        (id_, "orders.paid", "42", {"order": 42})]
    assert db.sql("select id, state from orders") == [(42, "paid")]


def test_example_is_short():
    """It is called the 60-line example."""
    with open(EXAMPLE) as file:
        assert len(file.readlines()) <= 60


@pytest.mark.skipif(not shutil.which("g++"), reason="g++ is not installed")
def test_headers_are_cplusplus_too(prefix, tmp_path):
    """The headers compile as C++."""
    source = tmp_path / "headers.cc"
    names = sorted(name for name in os.listdir(os.path.join(prefix["include"], "outbox")) if name.endswith(".h"))
    source.write_text("".join("#include <outbox/%s>\n" % name for name in names) + "int main() { return OUTBOX_OK; }\n")
    flags = pkg_config(prefix, "--cflags", "outbox", "libpq")
    run("g++", "-std=c++17", "-Wall", "-Wextra", "-Werror", "-fsyntax-only", source, *flags)


def declared(prefix):
    """The functions of the headers that were installed; a build without a store has no header for it."""
    names = set()
    for path in glob.glob(os.path.join(prefix["include"], "outbox", "*.h")):
        with open(path) as file:
            names |= set(re.findall(r"^OUTBOX_API [^;]*?\b(outbox_\w+)\(", file.read(), re.M))
    return names


def test_exports_the_api_and_nothing_else(prefix):
    """Every function of the headers, each under a version; no internal name."""
    lines = run("nm", "-D", "--defined-only", prefix["libdir"] + "/liboutbox.so").splitlines()
    exported = {line.split()[-1] for line in lines if line.split()[-2] != "A"}
    assert exported == {name + "@@OUTBOX_0.1" for name in declared(prefix)}


def test_needs_only_what_it_uses(prefix):
    """The shared library is linked to its clients and the C library, and finds every symbol by itself."""
    needed = set(re.findall(r"NEEDED\s+(\S+)\.so", run("objdump", "-p", prefix["libdir"] + "/liboutbox.so")))
    assert needed <= {"libpq", "libsqlite3", "libzstd", "libc", "libm", "ld-linux-x86-64"} | {"ld-linux-aarch64"}
    assert "undefined symbol" not in run("ldd", "-r", prefix["libdir"] + "/liboutbox.so")
