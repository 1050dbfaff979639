"""The end of a connection to a mail server: what is accepted is told before QUIT is answered, nobody waits long for that
answer, and a mail that comes meanwhile is not forgotten. Proves: Y2, S11."""
import time

import pytest

from support.mailserver import HANG, MailServer
from support.sinkdrive import Drive, drive, needs_kind
from support.under import PATIENCE

pytestmark = needs_kind("smtp")

MESSAGE = {"topic": "mail.welcome", "recipient": "zoe@example.com", "payload": {"subject": "Hello", "text": "Welcome"}}


@pytest.fixture
def server():
    with MailServer() as server:
        yield server


def wait_for_quit(server, session=0):
    end = time.monotonic() + 10 * PATIENCE
    while server.sessions[session].lines[-1:] != ["QUIT"]:
        assert time.monotonic() < end
        time.sleep(0.01)


def test_mail_that_comes_during_the_goodbye(server):
    """The only connection waits for the answer to its QUIT: who comes now is served behind it."""
    server.say["quit"] = HANG
    with Drive("smtp", server.options(connections=1, idle="100ms")) as sink:
        sink.send(MESSAGE)
        assert sink.verdict()["outcome"] == "accepted"
        wait_for_quit(server)
        sink.send(MESSAGE)
        verdict = sink.verdict()
        assert (verdict["handle"], verdict["outcome"]) == (2, "accepted")
        assert verdict["elapsed_ms"] < 5000 * PATIENCE
    assert (len(server.mails), server.connections) == (2, 2)


def told_before_the_goodbye(sink, message):
    """A goodbye takes a second here. A loaded machine may be as slow once, so there are some tries; how many it took."""
    for tries in range(1, 6):
        sink.send(message)
        verdict = sink.verdict()
        assert verdict["outcome"] == "accepted"
        if verdict["elapsed_ms"] < 1000 * PATIENCE:
            return tries
    raise AssertionError("told after %d ms" % verdict["elapsed_ms"])


def test_accepted_is_told_before_the_goodbye(server):
    """Y2: a mail that is taken is taken, however slow the server is at parting."""
    server.say["quit"] = HANG
    with Drive("smtp", server.options(connections=1, messages_per_connection=1)) as sink:
        tries = told_before_the_goodbye(sink, MESSAGE)
        wait_for_quit(server)
        sink.send(MESSAGE)
        assert sink.verdict()["outcome"] == "accepted"
    assert (len(server.mails), server.connections) == (tries + 1, tries + 1)


def test_probe_is_told_before_the_goodbye(server):
    server.say["quit"] = HANG
    with Drive("smtp", server.options()) as sink:
        told_before_the_goodbye(sink, {"probe": True})
        wait_for_quit(server)


@pytest.mark.parametrize("stage, reply, outcome", [
    ("rcpt", "550 5.1.1 nobody", "terminal"), ("end", "554 5.6.0 no", "terminal"), ("end", "452 4.3.1 full", "retry")])
def test_refusal_does_not_wait_for_the_goodbye(server, stage, reply, outcome):
    """libcurl parts from a server that refused a mail before it tells of it."""
    server.say.update({stage: reply, "quit": HANG})
    verdict, = drive("smtp", server.options(), [MESSAGE])
    assert verdict["outcome"] == outcome and verdict["elapsed_ms"] < 4000 * PATIENCE


def test_patience_comes_back_after_a_refusal(server):
    """The haste of the goodbye is not for the next mail."""
    server.say["rcpt"] = ["550 5.1.1 nobody", None]
    server.say["end"] = lambda _recipient: time.sleep(2.5)  # the server stands still
    with Drive("smtp", server.options(connections=1)) as sink:
        sink.send(MESSAGE)
        assert sink.verdict()["outcome"] == "terminal"
        sink.send(MESSAGE)
        assert sink.verdict()["outcome"] == "accepted"


def test_goodbye_is_said_once(server):
    with Drive("smtp", server.options(connections=1, messages_per_connection=2)) as sink:
        for _ in range(4):
            sink.send(MESSAGE)
            assert sink.verdict()["outcome"] == "accepted"
        wait_for_quit(server, 1)
    assert [session.lines for session in server.sessions] == [["EHLO", "MAIL", "MAIL", "QUIT"]] * 2


def test_end_of_the_sink_does_not_wait_for_the_goodbye(server):
    server.say["quit"] = HANG
    begin = time.monotonic()
    drive("smtp", server.options(), [MESSAGE])
    assert time.monotonic() - begin < 4 * PATIENCE
    assert server.sessions[0].lines == ["EHLO", "MAIL", "QUIT"]
