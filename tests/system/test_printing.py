"""What others wrote is printed so that it cannot act: no character reaches a terminal or a log that would control it, end a
line, or turn the direction of the text around it. In JSON the escapes mean the same.

Proves: V15 (subject and the other texts of a message, wherever they are shown).
"""
import json
import re

import pytest

from support.relay import Relay

UGLY = "a\u202eb\u2066c\u200fd\u061ce"
WORSE = UGLY + "\u2028\x7f\x85\x9b31m"
BAD = re.compile("[\x00-\x08\x0b-\x1f\x7f-\x9f\u061c\u200e\u200f\u2028-\u202e\u2066-\u2069]")


def clean(done):
    for text in (done.stdout, done.stderr):
        found = BAD.search(text)
        assert not found, "%r in %r" % (found.group(), text)
    return done


@pytest.fixture
def ugly(shop):
    sent = json.loads(shop.cli("send", "orders." + UGLY, json.dumps({"t" + WORSE: WORSE}, ensure_ascii=False), "--json",
                               "--key", UGLY, "--subject", UGLY, "--header", "x-note=%s" % UGLY).stdout)
    shop.cli("send", "orders." + UGLY, "bytes", "--content-type", "text/plain; x=%s" % UGLY)
    return sent["id"]


def test_tables_and_json(shop, ugly):
    """V15: list, show, status, doctor and the operator's commands, for people and for programs."""
    for command in (["list"], ["list", "--payload"], ["show", ugly], ["status"], ["doctor"],
                    ["pause", "orders." + UGLY, "--reason", UGLY], ["status"], ["resume", "orders." + UGLY],
                    ["retry", UGLY], ["list", "--status", UGLY], ["show", UGLY], ["tune", UGLY, UGLY], [UGLY],
                    ["list", "--" + UGLY]):
        done = clean(shop.cli(*command, check=False))
        assert "\\u202e" in done.stdout + done.stderr or command[0] in ("doctor", "resume"), (command, done)
        clean(shop.cli(*command, "--json", check=False))
    message = json.loads(clean(shop.cli("show", ugly, "--json")).stdout)["message"]
    assert (message["topic"], message["key"], message["payload"]) == ("orders." + UGLY, UGLY, {"t" + WORSE: WORSE})
    assert message["headers"] == {"x-note": UGLY}


def test_the_log(shop, ugly, tmp_path):
    """V15: nor does a receiver's answer or a topic act in a log, or in what the record of attempts shows."""
    script = tmp_path / "say"
    script.write_text("#!/bin/sh\nprintf 'no \\342\\200\\256\\033[31m\\302\\233 way' >&2; exit 65\n")
    script.chmod(0o755)
    for format_ in ("logfmt", "json"):
        relay = Relay(tmp_path, shop.url, {"run": {"kind": "exec", "command": [str(script)]}}, [{"sink": "run"}],
                      log={"level": "debug", "format": format_})
        relay.until_empty()
        assert ugly in relay.log() and not BAD.search(relay.log())
        shop.cli("retry", ugly, check=False)
    shown = clean(shop.cli("show", ugly)).stdout
    assert "way" in shown
