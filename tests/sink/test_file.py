"""The file sink. Proves: N3 (sinks by name), M19 (every line says what a receiver needs), S13 (codes)."""
import json
import os
import shutil

import pytest

from support.sinkdrive import Drive, OpenError, drive, needs_sinks

pytestmark = needs_sinks

PAYLOAD = {"format": "payload"}


def payloads(path):
    return path.read_text().splitlines()


def test_appends_lines(tmp_path):
    """M19"""
    path = tmp_path / "out"
    path.write_text("before\n")
    batch = [{"topic": "t", "key": "k", "seq": n, "follows": n > 1, "dedupe_key": "d%d" % n} for n in range(1, 4)]
    verdicts = drive("file", {"path": path}, [{"batch": batch}, {"probe": True}])
    assert [v["outcome"] for v in verdicts] == ["accepted"] * 4
    first, *rest = payloads(path)
    assert first == "before"
    assert [(line["key"], line["seq"], line["dedupe_key"]) for line in map(json.loads, rest)] == [
        ("k", n, "d%d" % n) for n in range(1, 4)]


def test_order_over_many_jobs(tmp_path):
    path = tmp_path / "out"
    drive("file", {"path": path, **PAYLOAD}, [{"topic": "t", "payload": n} for n in range(300)])
    assert payloads(path) == [str(n) for n in range(300)]


def test_rights_of_a_new_file(tmp_path):
    drive("file", {"path": tmp_path / "a"}, [{"topic": "t"}])
    drive("file", {"path": tmp_path / "b", "mode": "0600"}, [{"topic": "t"}])
    assert [os.stat(tmp_path / name).st_mode & 0o777 for name in "ab"] == [0o640 & ~current_umask(), 0o600]


def current_umask():
    mask = os.umask(0)
    os.umask(mask)
    return mask


def test_rotation_needs_no_signal(tmp_path):
    path = tmp_path / "out"
    with Drive("file", {"path": path, **PAYLOAD}) as sink:
        for n in range(3):
            sink.send({"topic": "t", "payload": n})
            assert sink.verdict()["outcome"] == "accepted"
            path.rename(tmp_path / ("out.%d" % n))
            if n:  # some rotators make the new file themselves
                path.touch()
        sink.send({"topic": "t", "payload": 3})
        assert sink.verdict()["outcome"] == "accepted"
    assert [payloads(tmp_path / name) for name in ("out.0", "out.1", "out.2", "out")] == [["0"], ["1"], ["2"], ["3"]]


def test_links_are_followed_by_choice(tmp_path):
    """S13: whoever may write to the folder must not lead the relay to another file; /dev/stdout stays one to write to."""
    target, path = tmp_path / "target", tmp_path / "out"
    path.symlink_to(target)
    verdict, probe = drive("file", {"path": path}, [{"topic": "t"}, {"probe": True}])
    assert (verdict["outcome"], verdict["code"]) == ("blocked", "file_eloop") == (probe["outcome"], probe["code"])
    assert not target.exists()
    assert drive("file", {"path": path, "symlinks": "true"}, [{"topic": "t"}])[0]["outcome"] == "accepted"
    assert len(payloads(target)) == 1
    path.unlink()
    with Drive("file", {"path": path}) as sink:  # put there while it is in use
        sink.send({"topic": "t"})
        assert sink.verdict()["outcome"] == "accepted"
        path.rename(tmp_path / "old")
        path.symlink_to(target)
        sink.send({"topic": "t"})
        assert sink.verdict()["code"] == "file_eloop"
    assert len(payloads(target)) == 1
    assert drive("file", {"path": "/dev/stderr", "fsync": "false"}, [{"topic": "t"}])[0]["outcome"] == "accepted"


def test_a_full_disk_is_retried():
    """S13: unreachable, with a code; what was not tried costs nothing."""
    verdicts = drive("file", {"path": "/dev/full"}, [{"batch": [{"topic": "t"}, {"topic": "t"}]}])
    assert [(v["outcome"], v["code"]) for v in verdicts] == [("retry", "file_enospc"), ("not_sent", "file_enospc")]
    assert verdicts[0]["unreachable"]


def test_half_a_line_is_cut_off(tmp_path):
    """S13: a disk that fills up within a line (here: a limit on the size of files) leaves whole lines only."""
    path = tmp_path / "out"
    limited = ["/bin/bash", "-c", "trap '' XFSZ; ulimit -f 8; exec \"$@\"", "bash"]
    line = {"topic": "t", "payload": "x" * 3000}
    with Drive("file", {"path": path, **PAYLOAD}, prefix=limited) as sink:
        sink.send({"batch": [line] * 4})
        verdicts = [sink.verdict() for _ in range(4)]
        sink.send({"topic": "t", "payload": "small"})
        verdicts.append(sink.verdict())
    assert [v["outcome"] for v in verdicts] == ["accepted", "accepted", "blocked", "not_sent", "accepted"]
    assert payloads(path) == ['"%s"' % line["payload"]] * 2 + ['"small"']


@pytest.mark.parametrize("name,code", [("none/out", "file_enoent"), ("", "file_eisdir")])
def test_a_wrong_path_blocks(tmp_path, name, code):
    """S13"""
    [verdict] = drive("file", {"path": tmp_path / name}, [{"topic": "t"}])
    assert (verdict["outcome"], verdict["code"], verdict["scope"]) == ("blocked", code, "sink")
    assert str(tmp_path) in verdict["text"]


def test_probe_creates_nothing(tmp_path):
    verdicts = drive("file", {"path": tmp_path / "out"}, [{"probe": True}])
    verdicts += drive("file", {"path": tmp_path / "none" / "out"}, [{"probe": True}])
    assert [(v["outcome"], v["code"]) for v in verdicts] == [("accepted", None), ("blocked", "file_enoent")]
    assert not os.listdir(tmp_path)


@pytest.mark.parametrize("end", ['{"half":', "x"])
def test_a_torn_file_is_continued_on_a_new_line(tmp_path, end):
    """M19: half a line that somebody left, such as a relay that was killed, is not made part of ours."""
    path = tmp_path / "out"
    path.write_text('{"n":0}\n' + end)
    drive("file", {"path": path, **PAYLOAD}, [{"topic": "t", "payload": {"n": 1}}, {"topic": "t", "payload": {"n": 2}}])
    assert payloads(path) == ['{"n":0}', end, '{"n":1}', '{"n":2}']


def test_whole_files_get_no_empty_line(tmp_path):
    path = tmp_path / "out"
    path.touch()
    for n in range(3):
        drive("file", {"path": path, **PAYLOAD}, [{"topic": "t", "payload": n}])
    assert path.read_text() == "0\n1\n2\n"


def test_probe_sees_what_cannot_be_written_to(tmp_path):
    """S13: a folder has rights to write, and so has a pipe that nobody reads."""
    (tmp_path / "folder").mkdir()
    os.mkfifo(tmp_path / "pipe")
    probe = [{"probe": True}]
    found = [drive("file", {"path": tmp_path / name}, probe)[0] for name in ("folder", "pipe")]
    assert [(v["outcome"], v["code"]) for v in found] == [("blocked", "file_eisdir"), ("blocked", "file_enxio")]
    reader = os.open(tmp_path / "pipe", os.O_RDONLY | os.O_NONBLOCK)
    assert drive("file", {"path": tmp_path / "pipe"}, probe)[0]["outcome"] == "accepted"
    os.close(reader)


def test_a_pipe_nobody_reads_holds_nobody_up(tmp_path):
    """S11"""
    os.mkfifo(tmp_path / "pipe")
    [verdict] = drive("file", {"path": tmp_path / "pipe"}, [{"topic": "t"}])
    assert verdict["code"] == "file_enxio"


def test_cancel_and_close(tmp_path):
    path = tmp_path / "out"
    script = [{"topic": "t", "payload": n} for n in range(50)] + [{"cancel": n} for n in range(1, 51)]
    assert drive("file", {"path": path, **PAYLOAD}, script) == []
    drive("file", {"path": path, **PAYLOAD}, [{"topic": "t", "payload": 1}] * 50 + [{"close": True}], statuses=(3,))


def test_what_follows_a_cancelled_line_is_not_written(tmp_path):
    """N2: the line before it in its key was taken back before it was begun."""
    path = tmp_path / "out"
    behind = [{"topic": "t", "payload": 2}, {"topic": "t", "payload": 3, "follows": True},
              {"topic": "t", "payload": 4, "follows": True}, {"topic": "t", "payload": 5}]
    with Drive("file", {"path": path, **PAYLOAD}) as sink:
        sink.send({"topic": "t", "payload": 1}, {"batch": behind}, {"cancel": 2})
        found = sink.verdicts(4)
    assert {handle: verdict["outcome"] for handle, verdict in found.items()} == {
        1: "accepted", 3: "not_sent", 4: "not_sent", 5: "accepted"}
    assert path.read_text() == "1\n5\n"


needs_strace = pytest.mark.skipif(not shutil.which("strace"), reason="strace is not installed")


@needs_strace
def test_a_sync_that_fails_is_unknown(tmp_path):
    """S13: the lines may be on the disk or not; those of a later job are judged by their own sync."""
    failing = ["strace", "-f", "-qq", "-e", "trace=fdatasync", "-e", "inject=fdatasync:error=EIO:when=1", "-o",
               str(tmp_path / "trace")]
    # strace counts by thread
    with Drive("file", {"path": tmp_path / "out", **PAYLOAD}, prefix=failing, env={"UV_THREADPOOL_SIZE": "1"}) as sink:
        sink.send({"batch": [{"topic": "t"}, {"topic": "t"}]}, {"wait": True}, {"topic": "t"})
        found = [sink.verdict() for _ in range(3)]
        sink.finish()
    assert [(v["outcome"], v["code"]) for v in found] == [("unknown", "file_eio")] * 2 + [("accepted", None)]
    assert found[0]["unreachable"]


@needs_strace
def test_syncs_before_it_accepts(tmp_path):
    """The verdict comes after the sync; without it when asked."""
    trace = tmp_path / "trace"
    strace = ["strace", "-f", "-qq", "-e", "trace=write,fdatasync", "-o", str(trace)]
    for fsync in (True, False):
        with Drive("file", {"path": tmp_path / "out", **PAYLOAD, "fsync": fsync}, prefix=strace) as sink:
            sink.send({"topic": "t", "payload": "hello"})
            assert sink.verdict()["outcome"] == "accepted"
        calls = [line for line in trace.read_text().splitlines() if "hello" in line or "sync" in line or "accep" in line]
        assert ["write" in call for call in calls] == ([True, False, True] if fsync else [True, True])


@pytest.mark.parametrize("options,text", [({}, "path"), ({"path": ""}, "path"), ({"path": "x", "mode": "9"}, "mode"),
                                          ({"path": "x", "format": "xml"}, "logfmt")])
def test_bad_options_are_refused(options, text):
    with pytest.raises(OpenError, match=text):
        Drive("file", options)
