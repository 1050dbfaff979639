"""The configuration from the outside: validate, config, and the store that other commands take from the file.

Proves: V11 (settings from file, environment and flags), M15 (poll against lease is warned about).
"""
import json
import os
import subprocess

import pytest

from support.database import run_cli

# Nothing of the machine's own may be heard.
QUIET = {"OUTBOX_STORE": "", "DATABASE_URL": "", "OUTBOX_CONFIG": "", "OUTBOX_SCHEMA": ""}
GOOD = """\
store: sqlite:{folder}/outbox.db
relay:
  lease: ${{LEASE:-20s}}
defaults: {{timeout: 3s}}
sinks:
  billing: {{kind: "null", concurrency: 3}}
routes:
  - {{topic: "orders.*", sink: billing}}
"""


@pytest.fixture
def file(tmp_path):
    """Writes a configuration, with {folder} filled in; returns its path."""
    def write(text=GOOD, name="o.yaml"):
        path = tmp_path / name
        path.write_text(text.format(folder=tmp_path) if text == GOOD else text)
        return str(path)
    return write


def cli(*args, env=None, cwd=None, check=False):
    here = os.getcwd()
    os.chdir(cwd or "/")
    try:
        return run_cli(*args, env={**QUIET, **(env or {})}, check=check)
    finally:
        os.chdir(here)


# ---- validate --------------------------------------------------------------------------------------------------------


def test_a_good_file_is_good(file):
    """V11: exit 0, nothing on stdout, a note for people, none with --quiet."""
    done = cli("validate", file())
    assert (done.returncode, done.stdout) == (0, "")
    assert done.stderr == "%s: valid (1 store, 1 sink, 1 route)\n" % file()
    assert cli("validate", file(), "--quiet").stderr == ""


def test_every_mistake_is_told(file):
    """V11: exit 78; file, line, option and the nearest word, all mistakes of one run."""
    path = file("sinks:\n  billing: {kind: 'null', concurency: 3}\nrelay: {pol: 1s, batch: x}\nroutes: [{sink: biling}]\n")
    done = cli("validate", path)
    assert done.returncode == 78
    assert [line for line in done.stdout.splitlines() if ": error: " in line and "concurency" not in line] == [
        '%s:3: error: relay.batch: is "x", but must be a whole number' % path,
        '%s:3: error: relay.pol: unknown option; did you mean "poll"?' % path,
        '%s:4: error: routes[0].sink: unknown sink "biling"; did you mean "billing"?' % path,
    ]


def test_mistakes_as_json(file):
    """V11: for machines."""
    path = file("store: sqlite:x\nrelay: {pol: 1s}\nsinks: {a: {kind: null}}\nroutes: [{sink: a}]\n")
    done = cli("validate", path, "--json")
    report = json.loads(done.stdout)
    assert done.returncode == 78
    assert (report["ok"], report["file"], report["errors"]) == (False, path, 1)
    assert report["problems"][-1] == {"level": "error", "source": "file", "file": path, "line": 2, "variable": None,
                                      "name": "relay.pol", "value": None, "nearest": "poll", "text": "unknown option"}


def test_a_file_that_is_not_there():
    """V11"""
    done = cli("validate", "/nowhere/o.yaml")
    assert done.returncode == 78
    assert done.stdout == "/nowhere/o.yaml: error: cannot be read: No such file or directory\n"


def test_poll_above_a_third_of_the_lease_is_warned_about(file):
    """M15: the file, and the variable; a warning is no error."""
    done = cli("validate", file(), env={"OUTBOX_RELAY_POLL": "9s"})
    assert done.returncode == 0
    assert done.stdout.startswith("OUTBOX_RELAY_POLL: warning: relay.poll: is 9s, more than a third of the lease")
    assert cli("validate", file(), env={"OUTBOX_RELAY_POLL": "9s", "LEASE": "27s"}).stdout == ""


@pytest.mark.parametrize("sink, told", [
    ("kind: http", "set url"),
    ("kind: http, url: 'ftp://a'", "neither http nor https"),
    ("kind: http, url: 'https://a.example', secret: short", "whsec_"),
    ("kind: smtp, url: 'smtp://a.example', from: nobody", "not an email address"),
])
def test_what_only_the_adapter_knows(file, sink, told):
    """V11: validate and run agree on what can be used; nothing is sent for it."""
    path = file("store: sqlite:x.db\nsinks: {a: {%s}}\nroutes: [{sink: a}]\n" % sink)
    done = cli("validate", path)
    assert done.returncode == 78 and "good" not in done.stderr
    assert done.stdout.startswith("%s:2: error: sinks.a: " % path) and told in done.stdout
    assert json.loads(cli("validate", path, "--json").stdout)["ok"] is False
    ran = cli("run", "--config", path)
    assert ran.returncode == 78 and told in ran.stderr


@pytest.mark.parametrize("text, told", [
    (None, "no configuration"),
    ("", "sinks: missing"),
    ("store: sqlite:x.db\n", "sinks: missing"),
    ("sinks: {a: {kind: null}}\nroutes: [{sink: a}]\n", "no store configured"),
])
def test_a_relay_with_nothing_to_do_does_not_start(file, text, told):
    """V11 N6: it would sit there and deliver nothing, and nobody would know why. What to do next is said."""
    done = cli("run", *(["--config", file(text)] if text is not None else []))
    assert done.returncode == 78 and told in done.stderr
    if told == "no store configured":  # it may be named where the relay runs
        return
    checked = cli("validate", *([file(text)] if text is not None else []))
    assert checked.returncode == 78 and "good" not in checked.stderr
    assert told in checked.stdout + checked.stderr and "outbox config --sample" in checked.stdout + checked.stderr


def test_all_sinks_in_one_run(file):
    """V11: what only the adapters know is told beside what the reader knows, in one run."""
    path = file("relay: {pol: 1s}\nsinks:\n  a: {kind: http, url: 'ftp://a'}\n  b: {kind: http, url: '${NOBODY}'}\n"
                "  c: {kind: smtp, url: 'smtp://a.example', from: nobody}\nroutes: [{sink: a}, {sink: d}]\n")
    done = cli("validate", path)
    told = {line.split(": ")[2] for line in done.stdout.splitlines() if ": error: " in line}
    assert done.returncode == 78 and told == {"relay.pol", "sinks.a", "sinks.b.url", "sinks.c", "routes[1].sink"}
    assert "5 errors" in done.stderr


@pytest.mark.parametrize("url, allow, told", [
    ("http://localhost:8080/x", "", "127.0.0.1"), ("http://10.1.2.3/x", "", "10.1.2.3"), ("http://[::1]/x", "", "::1"),
    ("http://10.1.2.3/x", "10.0.0.0/8", None), ("http://localhost/x", "127.0.0.1", None), ("https://a.example/x", "", None)])
def test_an_address_that_will_be_refused(file, url, allow, told):
    """V11 N3: an address that no delivery may reach is told before the first one, with what allows it."""
    path = file("store: sqlite:x.db\nsinks: {a: {kind: http, url: '%s'%s}}\nroutes: [{sink: a}]\n"
                % (url, ", allow: '%s'" % allow if allow else ""))
    done = cli("validate", path)
    assert done.returncode == 0, done.stdout
    assert ("warning: sinks.a.url: leads to %s," % told in done.stdout) == (told is not None), done.stdout
    assert (": warning:" in done.stdout) == (told is not None), done.stdout


def test_a_kind_that_is_not_known(file):
    """V11: those of the build are named."""
    done = cli("validate", file("sinks: {a: {kind: nul}}\nroutes: [{sink: a}]\n"))
    assert done.returncode == 78
    assert 'o.yaml:1: error: sinks.a.kind: unknown sink kind "nul"; the kinds are: ' in done.stdout
    assert 'did you mean "null"?' in done.stdout


def test_escape_sequences_of_a_file_do_not_reach_the_terminal(file):
    """V11"""
    done = cli("validate", file('"\\e[31mred": 1\n'))
    assert "\x1b" not in done.stdout + done.stderr
    assert "\\x1b[31mred" in done.stdout


# ---- config ----------------------------------------------------------------------------------------------------------


def values(*args, **options):
    done = cli("config", "--json", *args, **options)
    assert done.returncode == 0, done.stderr
    return {value["name"]: value for value in json.loads(done.stdout)["values"]}


def test_where_values_come_from(file):
    """V11: flag before environment before file before default."""
    path = file()
    got = values("--config", path, "--set", "relay.batch=30",
                 env={"OUTBOX_RELAY_BATCH": "20", "OUTBOX_RELAY_RUN": "4", "OUTBOX_SINK_BILLING_TIMEOUT": "7s"})
    assert (got["relay.batch"]["value"], got["relay.batch"]["source"]) == ("30", "flag")
    assert got["relay.run"] == {"name": "relay.run", "value": "4", "source": "env", "variable": "OUTBOX_RELAY_RUN",
                                "file": None, "line": None, "secret": False, "reloadable": True}
    assert got["relay.lease"] == {"name": "relay.lease", "value": "20s", "source": "file", "file": path, "line": 3,
                                  "variable": None, "secret": False, "reloadable": True}
    assert (got["relay.poll"]["value"], got["relay.poll"]["source"]) == ("500ms", "default")
    assert got["sinks.billing.timeout"]["value"] == "7s"
    assert not got["relay.worker"]["reloadable"]
    assert got["routes[0]"]["value"] == "*/orders.* -> billing"


def test_the_same_for_people(file):
    """V11: a line each: name, value, source."""
    lines = cli("config", "--config", file(), env={"OUTBOX_RELAY_BATCH": "20"}).stdout.splitlines()
    assert ["relay.batch", "20", "env", "OUTBOX_RELAY_BATCH"] in [line.split() for line in lines]
    assert ["relay.lease", "20s", "%s:3" % file()] in [line.split() for line in lines]


def test_no_secret_is_shown(file):
    """V11: neither of the file, nor of the environment, nor of a flag; not even when it is wrong."""
    text = ("stores:\n  a: {url: \"postgresql://u:${PW}@h/d\"}\n  b: \"host=h password=zzz2\"\n"
            "relay: {worker: \"${PW}\"}\nsinks: {s: {kind: \"null\"}}\nroutes: [{sink: s}]\n")
    done = cli("config", "--config", file(text), env={"PW": "zzz1"})
    assert done.returncode == 0 and "zzz" not in done.stdout + done.stderr
    for bad in ["mysql://u:zzz3@h/d", "postgresql://u:zzz4@h:p%zz/d"]:
        for done in [cli("config", "--config", file(), "--store", bad), cli("validate", file(), env={"OUTBOX_STORE": bad})]:
            assert done.returncode == 78 and "zzz" not in done.stdout + done.stderr


@pytest.mark.parametrize("url", [
    "postgresq//u:zzz@h/d", "u:zzz@h", "postgresql:/u:zzz@h/d", "zzz", "zzz key: value\nhttp://x",
    "postgresql://u:a@zzz@h/d", "postgresql://u:zzz/b@h/d", "postgresql://u:1/zzz@h/d", "postgresql://u:zzz",
    "postgresql://h/d?pasword=zzz", "host=h pasword=zzz", "host=h password=a zzz", "PASSWORD=zzz",
])
def test_a_mistyped_store_is_not_repeated(file, tmp_path, url):
    """V11: its shape is shown, no part of it that may be a secret; also when it comes out of a file, from any command."""
    held = tmp_path / "held"
    held.write_text(url + "\n")
    held.chmod(0o600)
    bare = file("store: file:%s\nsinks: {s: {kind: 'null'}}\nroutes: [{sink: s}]\n" % held)
    for done in [cli("status", "--store", url), cli("status", "--store", url, "--json"), cli("validate", bare),
                 cli("status", "--config", bare), cli("doctor", "--config", bare), cli("init", url),
                 cli("run", "--config", bare), cli("config", "--config", bare, "--json"),
                 cli("migrate", env={"DATABASE_URL": url})]:
        assert done.returncode != 0 and "zzz" not in done.stdout + done.stderr, done
        assert "bytes)" in done.stdout + done.stderr


def test_no_variable_is_repeated(file):
    """V11: what comes out of a variable may be a secret that stands in the wrong place: an error shows the reference."""
    for sink, relay in [("kind: 'null'", "lease: '${PW}'"), ("kind: 'null', concurrency: '${PW}'", ""),
                        ("kind: http, url: 'https://a.example', source: '${PW} '", ""),
                        ("kind: http, url: 'https://a.example', secret: '${PW}'", ""),
                        ("kind: http, url: 'https://a.example', headers: {'${PW}': x, y: \"${PW}\\n\"}", ""),
                        ("kind: exec, command: [x], exit: {1: '${PW}'}", ""),
                        ("kind: amqp, url: 'amqp://a:${PW}@h'", ""), ("kind: kafka, brokers: h, kafka: {acks: '${PW}'}", "")]:
        path = file("store: sqlite:/x\nrelay: {%s}\nsinks: {s: {%s}}\nroutes: [{sink: s}]\n" % (relay, sink))
        done = cli("validate", path, env={"PW": "zzz-secret"})
        assert "zzz" not in done.stdout + done.stderr, done
        assert done.returncode == 78, done


def test_headers_and_variables_are_shown_when_asked(file):
    """V11: they often hold a token that nobody marked as a secret. What sounds like one is never shown."""
    path = file("store: sqlite:/x\nsinks:\n  web: {kind: http, url: 'https://a.example', headers: {X-Team: zzz1, X-Auth: yyy1}}\n"
                "  run: {kind: exec, command: ['true'], env: {PLACE: zzz2, API_TOKEN: yyy2}}\n"
                "  mail: {kind: smtp, url: 'smtp://h', from: a@example.org, headers: {X-Campaign: zzz3}}\nroutes: [{sink: web}]\n")
    for more in [(), ("--json",)]:
        done = cli("config", "--config", path, *more)
        assert done.returncode == 0 and "zzz" not in done.stdout and "yyy" not in done.stdout
        done = cli("config", "--config", path, "--reveal", *more)
        assert all("zzz%d" % n in done.stdout for n in (1, 2, 3)) and "yyy" not in done.stdout


def test_a_password_among_the_arguments_is_warned_about(tmp_path):
    """V11: everybody can read it in the list of processes."""
    url = "postgresql://u:zzz@127.0.0.1:1/d"
    told = cli("status", "--store", url).stderr
    assert "warning: --store contains a password" in told and "OUTBOX_STORE" in told and "zzz" not in told
    assert "warning" not in cli("status", "--store", "postgresql://u@127.0.0.1:1/d").stderr
    assert "warning" not in cli("status", env={"OUTBOX_STORE": url}).stderr


def test_no_foreign_library_is_loaded(file, tmp_path):
    """V11: a file that just lies in the current folder, and that another user owns, brings no code into this process."""
    trap, mark = tmp_path / "trap.so", tmp_path / "sprung"
    subprocess.run(["cc", "-shared", "-fPIC", "-x", "c", "-", "-o", str(trap)], check=True, text=True, input="""
        #include <stdio.h>
        __attribute__((constructor)) static void spring(void) { fclose(fopen("%s", "w")); }""" % mark)
    path = file("store: sqlite:/x\nsinks: {s: {kind: s, library: %s}}\nroutes: [{sink: s}]\n" % trap, "outbox.yaml")
    os.chown(path, 12345, -1)
    for command in ("validate", "doctor", "config", "run"):
        done = cli(command, cwd=tmp_path)
        assert done.returncode != 0 and not mark.exists()
        assert "sinks.s.library: is not loaded" in done.stdout + done.stderr and "--config" in done.stdout + done.stderr
    assert cli("validate", path).returncode == 78 and mark.exists()  # named: it is loaded, and is no adapter


def test_a_bad_file_shows_nothing(file):
    """V11: never half of a configuration."""
    done = cli("config", "--config", file("relay: {pol: 1s}\nx: 1\n"))
    assert (done.returncode, done.stdout) == (78, "")
    assert 'relay.pol: unknown option; did you mean "poll"? (and 1 more: see outbox validate)' in done.stderr


def test_the_sample_is_good(file):
    """V11: what is offered to begin with works, once its sink is one that every build has."""
    sample = cli("config", "--sample").stdout
    assert "  #poll: 500ms\n" in sample
    done = cli("validate", file(sample.replace("kind: stdout", "kind: 'null'")))
    assert (done.returncode, done.stdout) == (0, "")


# ---- the store of other commands -------------------------------------------------------------------------------------


def test_commands_find_their_store_in_the_file(file, tmp_path):
    """V11: --config, OUTBOX_CONFIG, ./outbox.yaml; a sink that is wrong does not keep anybody from looking."""
    path = file(GOOD.format(folder=tmp_path) + "  - {sink: nobody}\n", "outbox.yaml")
    assert cli("init", "--config", path).returncode == 0
    assert cli("send", "orders.paid", "{}", "--config", path).returncode == 0
    assert json.loads(cli("list", "--json", env={"OUTBOX_CONFIG": path}).stdout)["topic"] == "orders.paid"
    assert json.loads(cli("list", "--json", cwd=tmp_path).stdout)["topic"] == "orders.paid"
    other = "sqlite:%s/other.db" % tmp_path
    assert cli("init", other).returncode == 0
    assert cli("list", "--json", cwd=tmp_path, env={"OUTBOX_STORE": other}).stdout == ""
    assert cli("list", "--json", cwd=tmp_path, env={"DATABASE_URL": other}).stdout != ""  # the last resort


def test_a_broken_file_is_told(file):
    """V11: not passed over in silence."""
    done = cli("status", "--config", file("store: [\n"))
    assert done.returncode == 78
    assert "o.yaml:2: error: not YAML" in done.stderr
