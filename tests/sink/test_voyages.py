"""A run of keyed messages by a real relay to the sinks without a broker, while the other side is killed and comes back. The
sinks of brokers have theirs in their own files, email has it in tests/system/test_relay_mail.py.

Proves: N3 (sinks by name), N2 (nothing lost, order of each key kept), N5 (an outage ends by itself), S13.
"""
import json

import pytest

from support.broker import voyage
from support.outpost import Outpost
from support.relay import wait_for
from support.sinkdrive import needs_kind, needs_sinks

pytestmark = needs_sinks


@pytest.mark.parametrize("kind", [pytest.param(kind, marks=needs_kind(kind))
                                  for kind in ("http", "slack", "telegram", "whatsapp")])
def test_nothing_is_lost_when_the_server_restarts_and_dies(kind, tmp_path):
    """N2 N5: SIGTERM, then kill -9, in the middle of a run."""
    with Outpost(tmp_path / kind, kind) as server:
        voyage(tmp_path, {"rate": "300/s", **server.sink()}, server.arrivals, [server.restart, server.kill_and_start],
               per_leg=150)


def test_nothing_is_lost_when_a_program_dies(tmp_path):
    """N2: a program that is killed leaves it open whether it did its work: tried again, and the key waits for it."""
    out, dying, deaths, program = (tmp_path / name for name in ("out", "dying", "deaths", "program"))
    program.write_text('if [ -e "$1" ]; then echo >> "$2"; kill -9 $$; fi; echo "$(cat)" >> "$3"\n')

    def kill():
        dying.touch()
        wait_for(deaths.exists)
        dying.unlink()
    command = ["/bin/sh", *map(str, (program, dying, deaths, out))]
    twice = voyage(tmp_path, {"kind": "exec", "command": command, "concurrency": 4},
                   lambda: [json.loads(line)["n"] for line in out.read_text().splitlines()], [kill], per_leg=60)
    assert twice == 0


def test_nothing_is_lost_when_a_folder_goes_away(tmp_path):
    """N2 N5: as when a disk is unmounted for a while."""
    folder, aside = tmp_path / "folder", tmp_path / "aside"
    folder.mkdir()

    def take_away():
        folder.rename(aside)
        wait_for(lambda: "file_enoent" in (tmp_path / "relay.log").read_text())
        aside.rename(folder)
    twice = voyage(tmp_path, {"kind": "file", "path": str(folder / "out"), "format": "payload"},
                   lambda: [json.loads(line)["n"] for line in (folder / "out").read_text().splitlines()], [take_away])
    assert twice == 0
