"""tools/deps reports before it acts.

Proves: a bare machine gets what it needs, and is told.
"""
import os
import subprocess

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))


def deps(*args, path=None):
    env = {**os.environ, **({"PATH": "%s:%s" % (path, os.environ["PATH"])} if path else {})}
    done = subprocess.run([os.path.join(ROOT, "tools", "deps"), *args], stdout=subprocess.PIPE,
                          stderr=subprocess.STDOUT, text=True, env=env)
    return done.returncode, done.stdout


def fake(folder, name, script):
    path = folder / name
    path.write_text("#!/bin/sh\n" + script)
    path.chmod(0o755)


def test_nothing_is_missing_where_the_tests_run():
    assert deps("--check", "test") == (0, "tools/deps: nothing is missing\n")
    assert deps("test") == (0, "")


def test_a_missing_package_is_reported_and_not_installed(tmp_path):
    fake(tmp_path, "dpkg-query", 'for last; do :; done\n[ "$last" = libpq-dev ] || printf installed\n')
    for name in ("apt-get", "sudo"):
        fake(tmp_path, name, "touch %s/installed\n" % tmp_path)
    code, text = deps("--check", "build", path=tmp_path)
    assert code == 1
    assert text.split("\n")[1].split(None, 1) == ["libpq-dev", "client of PostgreSQL"]
    assert len(text.strip().split("\n")) == 2
    assert not (tmp_path / "installed").exists()


def test_a_command_from_elsewhere_will_do(tmp_path):
    fake(tmp_path, "dpkg-query", 'for last; do :; done\n[ "$last" = nodejs ] || printf installed\n')
    fake(tmp_path, "node", "")
    assert deps("--check", "examples", path=tmp_path) == (0, "tools/deps: nothing is missing\n")


def test_a_wrong_set_is_refused():
    code, text = deps("everything")
    assert code == 2
    assert "no such set: everything" in text
    assert deps()[0] == 2
