"""tools/deps reports before it acts, and leaves no service behind.

Proves: a bare machine gets what it needs, is told, and runs nothing that it did not run before.
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


def machine(folder, apt_get):
    """A machine that has all but libpq-dev and runs one service; what is done to its services is logged."""
    for name in ("usr/sbin", "etc/systemd/system/multi-user.target.wants", "etc/rc2.d"):
        (folder / name).mkdir(parents=True)
    (folder / "etc/systemd/system/multi-user.target.wants/old.service").symlink_to("/dev/null")
    (folder / "etc/rc2.d/S01old").symlink_to("/dev/null")
    tools = folder / "tools"
    tools.mkdir()
    fake(tools, "dpkg-query", 'for last; do :; done\n[ "$last" = libpq-dev ] || printf installed\n')
    fake(tools, "sudo", 'exec "$@"\n')
    for name in ("deb-systemd-helper", "update-rc.d"):
        fake(tools, name, 'echo %s "$@" >> "$OUTBOX_DEPS_ROOT/done"\n' % name)
    with open(tools / "deb-systemd-helper", "a") as file:  # the real one does nothing otherwise
        file.write('[ "$DPKG_MAINTSCRIPT_PACKAGE" ] || rm "$OUTBOX_DEPS_ROOT/done"\n')
    fake(tools, "apt-get", 'cd "$OUTBOX_DEPS_ROOT"\ncase "$*" in *update*) exit 0;; esac\n' + apt_get)
    return tools


SERVICES = """
usr/sbin/policy-rc.d || echo the policy says $? >> done
cat etc/postgresql-common/createcluster.d/*.conf >> done
ln -s /dev/null etc/systemd/system/multi-user.target.wants/new.service
ln -s /dev/null etc/rc2.d/S01new
echo "1 upgraded, 2 newly installed, 0 to remove and 4 not upgraded."
echo "Unpacking new"
"""


def left_behind(folder):
    return sorted(path.name for path in (folder / "usr/sbin").iterdir()) + \
        [path.name for path in (folder / "etc").iterdir() if path.name == "postgresql-common" and any(path.iterdir())]


def test_a_service_that_comes_along_never_starts(tmp_path, monkeypatch):
    """Not at once, not at boot; and the service that was there before is left alone."""
    monkeypatch.setenv("OUTBOX_DEPS_ROOT", str(tmp_path))
    code, text = deps("build", path=machine(tmp_path, SERVICES))
    assert code == 0, text
    assert text.split("\n")[2:] == ["tools/deps: installing them, and what they need",
                                    "  1 upgraded, 2 newly installed, 0 to remove and 4 not upgraded.",
                                    "tools/deps: these do not start at boot: new", ""]
    assert (tmp_path / "done").read_text().split("\n") == [
        "the policy says 101", "create_main_cluster = false", "update-rc.d new disable",
        "deb-systemd-helper disable new.service", ""]
    assert left_behind(tmp_path) == []


def test_a_failure_shows_what_apt_says_and_leaves_nothing(tmp_path, monkeypatch):
    monkeypatch.setenv("OUTBOX_DEPS_ROOT", str(tmp_path))
    code, text = deps("build", path=machine(tmp_path, SERVICES + "echo E: no room >&2\nexit 100\n"))
    assert code == 1
    assert "Unpacking new\nE: no room\ntools/deps: apt-get install failed, see above\n" in text
    assert "deb-systemd-helper disable new.service\n" in (tmp_path / "done").read_text()
    assert left_behind(tmp_path) == []


def test_a_command_from_elsewhere_will_do(tmp_path):
    fake(tmp_path, "dpkg-query", 'for last; do :; done\n[ "$last" = nodejs ] || printf installed\n')
    fake(tmp_path, "node", "")
    assert deps("--check", "examples", path=tmp_path) == (0, "tools/deps: nothing is missing\n")


def test_a_wrong_set_is_refused():
    code, text = deps("everything")
    assert code == 2
    assert "no such set: everything" in text
    assert deps()[0] == 2
