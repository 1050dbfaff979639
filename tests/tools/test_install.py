"""make install from a clean copy: it builds what it installs and nothing else, and what it installed is enough to work with.

Proves: M1 M6 (a program outside the tree enqueues, the installed command delivers), S12 (the first minutes of a user).
"""
import os
import re
import shutil
import subprocess

import pytest

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))

with open(os.path.join(ROOT, "meson.build")) as file:
    VERSION = re.search(r"^  version: '(.*)'", file.read(), re.MULTILINE).group(1)

# What takes long to compile and has nothing to do with installing is left out.
FLAGS = " ".join(["-Doptimization=1"] + ["-Dsink_%s=disabled" % kind for kind in (
    "http", "kafka", "smtp", "slack", "telegram", "whatsapp", "amqp", "nats", "redis", "mqtt")])

PROGRAM = r"""
#include <outbox/sqlite.h>
#include <stdio.h>
int main(int argc, char **argv)
{
    sqlite3 *db;
    struct outbox_message msg = OUTBOX_MESSAGE_INIT;
    struct outbox_receipt receipt = OUTBOX_RECEIPT_INIT;
    struct outbox_error err;
    msg.topic = "orders.paid", msg.payload = "{\"order\": 42}", msg.payload_len = 13;
    if (argc < 2 || sqlite3_open(argv[1], &db) || outbox_sqlite_enqueue(db, &msg, &receipt, &err))
        return 1;
    printf("%s created %d\n", outbox_version(), receipt.created);
    return sqlite3_close(db);
}
"""


def run(*command, env=None, **more):
    done = subprocess.run([str(word) for word in command], stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True,
                          timeout=600, env={**os.environ, **(env or {})}, **more)
    assert done.returncode == 0, "%s\n%s" % (" ".join(map(str, command)), done.stdout)
    return done.stdout


@pytest.fixture(scope="module")
def copy(tmp_path_factory):
    """The files that a clone would have."""
    folder = tmp_path_factory.mktemp("clone") / "outbox"
    names = run("git", "ls-files", "-z", "--cached", "--others", "--exclude-standard", cwd=ROOT).split("\0")
    for name in filter(lambda name: name and os.path.isfile(os.path.join(ROOT, name)), names):
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        shutil.copy(os.path.join(ROOT, name), folder / name)
    return folder


def make(copy, *words):
    # Objects that the same compiler made from the same text elsewhere will do.
    return run("make", "-C", copy, *words, "MESONFLAGS=" + FLAGS, env={"CCACHE_NOHASHDIR": "1", "MAKEFLAGS": ""})


@pytest.fixture(scope="module")
def installed(copy):
    root = copy.parent / "root"
    make(copy, "install", "DESTDIR=%s" % root, "PREFIX=/opt/outbox")
    return root


def files(folder):
    return {str(path.relative_to(folder)) for path in folder.rglob("*") if not path.is_dir()}


def test_installs_what_users_need(installed):
    """Program, library, headers, pkg-config file; below DESTDIR and PREFIX, and nothing else."""
    found = {re.sub(r"lib/[^/]*-linux-[^/]*/", "lib/", name) for name in files(installed)}
    headers = os.listdir(os.path.join(ROOT, "include", "outbox"))
    assert found == {"opt/outbox/" + name for name in [
        "bin/outbox", "lib/liboutbox.a", "lib/liboutbox.so", "lib/liboutbox.so.0", "lib/liboutbox.so." + VERSION,
        "lib/pkgconfig/outbox.pc"] + ["include/outbox/" + name for name in headers]}


def test_builds_nothing_else(copy, installed):
    objects = [name for name in files(copy / "build") if name.endswith(".o")]
    assert objects
    assert not [name for name in objects if name.startswith(("tests/", "bench/", "examples/"))]


def test_a_program_is_built_against_it_and_works(installed, tmp_path):
    """M1 M6: with pkg-config alone; the installed command makes the store and delivers."""
    (config,) = installed.glob("**/pkgconfig")
    (tmp_path / "program.c").write_text(PROGRAM)
    flags = run("pkg-config", "--define-variable=prefix=%s/opt/outbox" % installed, "--cflags", "--libs", "outbox", "sqlite3",
                env={"PKG_CONFIG_PATH": str(config)}).split()
    run("gcc", "-std=c11", "-Wall", "-Wextra", "-Werror", tmp_path / "program.c", "-o", tmp_path / "program", *flags)
    outbox, file = installed / "opt/outbox/bin/outbox", tmp_path / "shop.db"
    run(outbox, "init", "sqlite:%s" % file)
    said = run(tmp_path / "program", file, env={"LD_LIBRARY_PATH": str(config.parent)})
    assert said == VERSION + " created 1\n"
    assert "orders.paid" in run(outbox, "list", "--store", "sqlite:%s" % file)


def test_uninstalls(copy, installed):
    """Last: it leaves no file behind."""
    make(copy, "uninstall")
    assert files(installed) == set()
