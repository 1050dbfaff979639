"""Sinks in shared objects: the template, built out of tree, and what is no sink. Proves: V5 (an adapter interface)."""
import json
import os
import shutil
import socket
import subprocess

import pytest

from support.database import BUILD, ROOT, run_cli
from support.relay import Relay
from support.sinkdrive import Drive, OpenError, drive, needs_sinks

pytestmark = needs_sinks

ENV = {"PKG_CONFIG_PATH": os.path.join(BUILD, "meson-uninstalled"), "LD_LIBRARY_PATH": os.path.join(BUILD, "src", "lib")}


@pytest.fixture(scope="module")
def template(tmp_path_factory):
    """As a user would: the folder copied elsewhere, make, pkg-config."""
    folder = tmp_path_factory.mktemp("template") / "sink"
    shutil.copytree(os.path.join(ROOT, "examples", "sink"), folder, ignore=shutil.ignore_patterns("*.so"))
    subprocess.run(["make", "-s", "-C", folder], check=True, env={**os.environ, **ENV, "CFLAGS": "-Werror"})
    return folder / "datagram.so"


@pytest.fixture
def receiver(tmp_path):
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as listener:
        listener.bind(str(tmp_path / "socket"))
        listener.settimeout(10)
        yield listener


def test_is_short():
    with open(os.path.join(ROOT, "examples", "sink", "datagram.c")) as file:
        assert len(file.readlines()) < 100


def test_delivers(template, receiver):
    message = {"topic": "t", "id": "018bcfe5-6800-7abc-8def-0123456789ab", "payload": {"n": 1}}
    [verdict] = drive(str(template), {"path": receiver.getsockname()}, [message], env=ENV)
    assert verdict["outcome"] == "accepted"
    assert receiver.recv(1000) == b'018bcfe5-6800-7abc-8def-0123456789ab\n{"n":1}'


def test_says_what_went_wrong(template, receiver, tmp_path):
    """S13"""
    [verdict] = drive(str(template), {"path": receiver.getsockname()}, [{"topic": "t", "payload": "x" * 5_000_000}], env=ENV)
    assert verdict["outcome"] == "terminal"
    [verdict] = drive(str(template), {"path": tmp_path / "none"}, [{"topic": "t"}], env=ENV)
    assert (verdict["outcome"], verdict["code"], verdict["unreachable"]) == ("retry", "errno_2", True)


def test_its_options_are_checked(template):
    with pytest.raises(OpenError, match="path is missing: the socket of the receiver"):
        Drive(str(template), {}, env=ENV)
    with pytest.raises(OpenError, match="colour"):
        Drive(str(template), {"path": "x", "colour": "red"}, env=ENV)
    with pytest.raises(OpenError, match="its path is too long"):
        Drive(str(template), {"path": "/tmp/" + "x" * 103}, env=ENV)
    assert drive(str(template), {"path": "/tmp/" + "x" * 102}, [], env=ENV) == []


def test_a_relay_runs_it(template, receiver, tmp_path):
    """V5, S12: named in the configuration, loaded by `outbox run`, checked like any other."""
    url = "sqlite:%s" % (tmp_path / "box.db")
    run_cli("init", url)
    id_ = json.loads(run_cli("send", "t", '{"n":1}', "--json", "--store", url).stdout)["id"]
    sinks = {"audit": {"kind": str(template), "path": receiver.getsockname()}}
    relay = Relay(tmp_path, url, sinks, [{"sink": "audit"}], env=ENV)
    relay.until_empty()
    assert receiver.recv(1000) == b'%s\n{"n":1}' % id_.encode()
    assert json.loads(run_cli("show", id_, "--json", "--store", url).stdout)["message"]["status"] == "delivered"
    sinks["audit"]["colour"] = "red"
    wrong = Relay(tmp_path, url, sinks, [{"sink": "audit"}], env=ENV, name="wrong")
    done = run_cli("validate", "--config", str(wrong.path), check=False, env={**os.environ, **ENV})
    assert done.returncode == 78 and "colour" in done.stdout + done.stderr


HEAD = "#include <outbox/sink.h>\nconst struct outbox_sink_ops *outbox_sink_ops(void) { "
FULL = ("static void f(void) {} const struct outbox_sink_ops *outbox_sink_ops(void) { static struct outbox_sink_ops ops = "
        "{OUTBOX_SINK_OPS_HEAD%s, .kind = \"x\", .open = (void *)f, .deliver = (void *)f, .cancel = (void *)f%s}; return &ops; }")


@pytest.mark.parametrize("source,text", [
    ("int nothing;", "does not export outbox_sink_ops"),
    (HEAD + "return 0; }", "returned NULL"),
    (HEAD + "static struct outbox_sink_ops ops = {.abi = 1, .kind = \"x\"}; return &ops; }", "OUTBOX_SINK_OPS_HEAD"),
    ("#include <outbox/sink.h>\n" + FULL % (", .abi = OUTBOX_SINK_ABI + 1", ", .close = (void *)f"), "rebuild it"),
    ("#include <outbox/sink.h>\n" + FULL % ("", ""), "must all be set"),
    ("#include <outbox/sink.h>\n" + FULL % (", .item_size = 0", ", .close = (void *)f"), "OUTBOX_SINK_OPS_HEAD"),
])
def test_what_is_no_sink_is_refused(tmp_path, source, text):
    (tmp_path / "x.c").write_text(source)
    subprocess.run(["gcc", "-w", "-shared", "-fPIC", "-I", os.path.join(ROOT, "include"), "-o", tmp_path / "x.so",
                    tmp_path / "x.c"], check=True)
    with pytest.raises(OpenError, match=text) as caught:
        Drive(str(tmp_path / "x.so"))
    assert "x.so" in str(caught.value)


def test_no_search_for_libraries(tmp_path):
    """A name without a '/' is a kind, never a file that the dynamic linker would look for."""
    shutil.copy(template_source(), tmp_path / "datagram.so")
    with pytest.raises(OpenError, match="unknown sink kind"):
        Drive("datagram.so", {}, env={"LD_LIBRARY_PATH": str(tmp_path)})
    (tmp_path / "text.so").write_text("not a shared object")
    with pytest.raises(OpenError, match="text.so"):
        Drive(str(tmp_path / "text.so"))


def template_source():
    return os.path.join(ROOT, "examples", "sink", "datagram.c")
