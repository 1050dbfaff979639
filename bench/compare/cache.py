"""What peers are made of, fetched from their registries at run time into a folder outside the repository.

OUTBOX_PEERS_CACHE, or ~/.cache/outbox-peers. Versions are pinned in bench/peers/versions.json. What cannot be had
raises Missing: the peer is skipped, and the report says why.
"""
import glob
import json
import os
import re
import shutil
import subprocess
import sys
import tarfile

PEERS = os.path.join(os.path.dirname(os.path.dirname(os.path.abspath(__file__))), "peers")
FOLDER = os.environ.get("OUTBOX_PEERS_CACHE") or os.path.join(os.path.expanduser("~"), ".cache", "outbox-peers")


class Missing(Exception):
    """A peer that cannot be installed here."""


def versions():
    with open(os.path.join(PEERS, "versions.json")) as file:
        return json.load(file)


def _run(command, folder, what, env=None, timeout=900):
    if not shutil.which(command[0]):
        raise Missing("%s: %s is not installed" % (what, os.path.basename(command[0])))
    try:
        done = subprocess.run(command, cwd=folder, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True,
                              timeout=timeout, env={**os.environ, **(env or {})})
    except subprocess.TimeoutExpired:
        raise Missing("%s: not there after %d s" % (what, timeout))
    if done.returncode != 0:
        lines = [line.strip() for line in done.stdout.splitlines() if line.strip()]
        errors = [line for line in lines if re.search("error|not available|unable|cannot", line, re.I)] or lines
        raise Missing("%s: %s" % (what, re.sub(r"https?://[^\s\"\\:]+", "the registry", "; ".join(errors[:2]))[:300]))
    return done.stdout


def _folder(name):
    path = os.path.join(FOLDER, name)
    os.makedirs(path, exist_ok=True)
    return path


def _copy(source, folder):
    """The drivers lie beside what they import. Returns whether anything has changed."""
    changed = False
    for path in glob.glob(os.path.join(PEERS, source, "*")):
        target = os.path.join(folder, os.path.basename(path))
        with open(path, "rb") as file:
            text = file.read()
        old = open(target, "rb").read() if os.path.exists(target) else None
        if old != text:
            changed = True
            with open(target, "wb") as file:
                file.write(text)
    return changed


def node(*packages):
    """A folder with these npm packages and a Node of its own; returns the folder."""
    folder = _folder("npm")
    pins = versions()
    _copy("node", folder)
    have = {}
    for path in glob.glob(os.path.join(folder, "node_modules", "**", "package.json"), recursive=True):
        name = os.path.relpath(os.path.dirname(path), os.path.join(folder, "node_modules"))
        if name in pins:
            with open(path) as file:
                have[name] = json.load(file).get("version")
    wanted = [name for name in ("node", *packages) if have.get(name) != pins[name]]
    if wanted:
        if not os.path.exists(os.path.join(folder, "package.json")):
            with open(os.path.join(folder, "package.json"), "w") as file:
                file.write('{"private": true, "type": "module"}\n')
        _run(["npm", "install", "--no-audit", "--no-fund", "--legacy-peer-deps", "--save-exact"] +
             ["%s@%s" % (name, pins[name]) for name in wanted], folder, "npm")
    return folder


def node_command(folder):
    own = os.path.join(folder, "node_modules", ".bin", "node")
    return own if os.path.exists(own) else "node"


def pgmq_sql():
    """(version, SQL) of pgmq: a package for another PostgreSQL carries it."""
    folder = node("@electric-sql/pglite-pgmq")
    for path in glob.glob(os.path.join(folder, "node_modules/@electric-sql/pglite-pgmq/dist/*.tar.gz")):
        with tarfile.open(path) as archive:
            for name in archive.getnames():
                found = re.search(r"/pgmq--(\d+\.\d+\.\d+)\.sql$", name)
                if found:
                    return found.group(1), archive.extractfile(name).read().decode()
    raise Missing("the npm package carries no pgmq--VERSION.sql")


def go(program, modules):
    """bench/peers/go/PROGRAM built with these modules, {path: the name of its pin}; returns the program. One Go module for
    all; what one peer lacks does not keep the others from being built."""
    folder = _folder("go")
    pins, target = versions(), os.path.join(folder, "bin", program)
    pinned = " ".join("%s@v%s" % (path, pins[name]) for path, name in modules.items())
    changed = False
    for name in ("driver", program):
        os.makedirs(os.path.join(folder, name), exist_ok=True)
        changed |= _copy(os.path.join("go", name), os.path.join(folder, name))
    stamp = target + ".pins"
    if not changed and os.path.exists(target) and os.path.exists(stamp) and open(stamp).read() == pinned:
        return target
    env = {"GOFLAGS": "-mod=mod", "GOWORK": "off"}
    if not os.path.exists(os.path.join(folder, "go.mod")):
        _run(["go", "mod", "init", "peers"], folder, "go", env)
    _run(["go", "get"] + pinned.split(), folder, "go", env)
    _run(["go", "build", "-o", target, "./" + program], folder, "go", env)
    with open(stamp, "w") as file:
        file.write(pinned)
    return target


def go_module(path, name):
    """Where the source of a module lies, at its pinned version."""
    text = _run(["go", "mod", "download", "-json", "%s@v%s" % (path, versions()[name])], _folder("go"), "go",
                {"GOFLAGS": "-mod=mod", "GOWORK": "off"})
    return json.loads(text)["Dir"]


def python(*packages):
    """A virtual environment with these packages; returns (its Python, the folder with the drivers)."""
    folder = _folder("python")
    pins, own = versions(), os.path.join(folder, "venv", "bin", "python")
    _copy("python", folder)
    if not os.path.exists(own):
        _run([sys.executable, "-m", "venv", os.path.join(folder, "venv")], folder, "python3 -m venv")
    wanted = ["%s==%s" % (name, pins[name]) for name in packages]
    stamp = os.path.join(folder, "installed")
    if not os.path.exists(stamp) or open(stamp).read() != " ".join(wanted):
        _run([own, "-m", "pip", "install", "-q", "psycopg[binary,pool]"] + wanted, folder, "pip")
        with open(stamp, "w") as file:
            file.write(" ".join(wanted))
    return own, folder


def maven(pom, version_name):
    """The libraries that bench/peers/java/POM names and the drivers, compiled; returns the class path."""
    folder = _folder("java")
    changed = _copy("java", folder)
    libraries, classes = os.path.join(folder, "lib"), os.path.join(folder, "classes")
    pinned, stamp = versions()[version_name], os.path.join(folder, "built")
    if changed or not os.path.exists(stamp) or open(stamp).read() != pinned:
        shutil.rmtree(libraries, ignore_errors=True)
        _run(["mvn", "-q", "-B", "-f", pom, "-Dpeer.version=" + pinned, "dependency:copy-dependencies",
              "-DoutputDirectory=" + libraries, "-DincludeScope=runtime"], folder, "mvn")
        sources = glob.glob(os.path.join(folder, "*.java"))
        _run(["javac", "-nowarn", "-cp", libraries + "/*", "-d", classes] + sources, folder, "javac")
        with open(stamp, "w") as file:
            file.write(pinned)
    return "%s:%s/*" % (classes, libraries)
