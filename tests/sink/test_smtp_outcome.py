"""What a mail server's replies mean for the message, by their codes; every way a connection can fail; and that no mail
is sent twice. Proves: Y2, S13, S11."""
import socket
import time

import pytest

from support.mailserver import DROP, HANG, RESET, MailServer
from support.sinkdrive import Drive, OpenError, drive, needs_kind, preload
from support.under import PATIENCE

pytestmark = needs_kind("smtp")

MESSAGE = {"topic": "mail.welcome", "recipient": "zoe@example.com", "payload": {"subject": "Hello", "text": "Welcome"}}
FIVE_MINUTES = 300_000


@pytest.fixture
def server():
    with MailServer() as server:
        yield server


def verdict_of(server, stage, reply, **more):
    server.say[stage] = reply
    verdict, = drive("smtp", server.options(**more), [MESSAGE])
    return verdict


def short(verdict):
    return verdict["outcome"], verdict["code"]


# ---- replies


def test_accepted(server):
    verdict, = drive("smtp", server.options(), [MESSAGE])
    assert (verdict["outcome"], verdict["code"], verdict["reference"]) == ("accepted", None, "Q00000001")
    assert (server.mails[0].sender, server.mails[0].recipients) == ("shop@example.org", ["zoe@example.com"])


@pytest.mark.parametrize("reply, reference", [
    ("250 2.0.0 Ok: queued as 4XyZ9k1", "4XyZ9k1"), ("250 OK id=1rABcd-000123-Xy", "1rABcd-000123-Xy"),
    ("250 2.0.0 1f2e3d4c Message accepted for delivery", "1f2e3d4c"), ("250 thanks", None), ("251 later", None),
    ("250-2.0.0 yes\r\n250 2.0.0 queued as ABCD", "ABCD")])
def test_reference_of_the_server(server, reply, reference):
    verdict = verdict_of(server, "end", reply)
    assert (verdict["outcome"], verdict["reference"]) == ("accepted", reference)


TABLE = [
    # stage, reply, outcome, code, scope, not_before_ms, unreachable
    ("mail", "452 4.3.1 no room", "retry", "smtp_452_4.3.1", None, None, False),
    ("mail", "451 4.3.0 local trouble", "retry", "smtp_451_4.3.0", None, None, False),
    ("mail", "550 5.1.8 who are you", "blocked", "smtp_550_5.1.8", "sink", None, False),
    ("mail", "553 no such sender", "blocked", "smtp_553", "sink", None, False),
    ("mail", "530 5.7.0 log in first", "blocked", "smtp_530_5.7.0", "sink", None, False),
    ("mail", "550 5.6.7 no such addresses here", "terminal", "smtp_550_5.6.7", "message", None, False),
    ("mail", "552 5.3.4 too big", "terminal", "smtp_552_5.3.4", "message", None, False),
    ("rcpt", "450 4.7.1 greylisted", "retry", "smtp_450_4.7.1", None, FIVE_MINUTES, False),
    ("rcpt", "451 4.7.1 try again later", "retry", "smtp_451_4.7.1", None, FIVE_MINUTES, False),
    ("rcpt", "450 4.2.0 greylisted", "retry", "smtp_450_4.2.0", None, FIVE_MINUTES, False),
    ("rcpt", "450 come back", "retry", "smtp_450", None, FIVE_MINUTES, False),
    ("rcpt", "451 come back", "retry", "smtp_451", None, FIVE_MINUTES, False),
    ("rcpt", "450 4.1.2 domain does not resolve now", "retry", "smtp_450_4.1.2", None, None, False),
    ("rcpt", "452 4.2.2 mailbox full", "retry", "smtp_452_4.2.2", None, None, False),
    ("rcpt", "552 5.2.2 mailbox full", "retry", "smtp_552_5.2.2", None, None, False),
    ("rcpt", "550 5.1.1 no such user", "terminal", "smtp_550_5.1.1", "recipient", None, False),
    ("rcpt", "550-5.1.1 no such\r\n550 5.1.1 user", "terminal", "smtp_550_5.1.1", "recipient", None, False),
    ("rcpt", "553 5.1.3 bad address", "terminal", "smtp_553_5.1.3", "recipient", None, False),
    ("rcpt", "550 5.2.1 mailbox disabled", "terminal", "smtp_550_5.2.1", "recipient", None, False),
    ("rcpt", "554 5.7.1 relay access denied", "terminal", "smtp_554_5.7.1", "recipient", None, False),
    ("rcpt", "550 no", "terminal", "smtp_550", "recipient", None, False),
    ("rcpt", "550 4.1.1 of two minds", "terminal", "smtp_550", "recipient", None, False),
    ("rcpt", "530 5.7.1 log in first", "blocked", "smtp_530_5.7.1", "sink", None, False),
    ("rcpt", "534 5.7.9 a stronger way to log in is needed", "blocked", "smtp_534_5.7.9", "sink", None, False),
    ("rcpt", "538 5.7.11 encryption is needed", "blocked", "smtp_538_5.7.11", "sink", None, False),
    ("rcpt", "550 5.7.9 weak", "blocked", "smtp_550_5.7.9", "sink", None, False),
    ("rcpt", "421 4.7.0 too many", "limited", "smtp_421_4.7.0", "sink", FIVE_MINUTES, False),
    ("data", "451 4.3.0 not now", "retry", "smtp_451_4.3.0", None, None, False),
    ("data", "554 5.5.1 no valid recipients", "terminal", "smtp_554_5.5.1", "message", None, False),
    ("end", "451 4.7.1 greylisted", "retry", "smtp_451_4.7.1", None, FIVE_MINUTES, False),
    ("end", "452 4.3.1 disk full", "retry", "smtp_452_4.3.1", None, None, False),
    ("end", "421 4.3.2 going down", "retry", "smtp_421_4.3.2", None, None, True),
    ("end", "552 5.3.4 too big", "terminal", "smtp_552_5.3.4", "message", None, False),
    ("end", "550 5.6.0 bad content", "terminal", "smtp_550_5.6.0", "message", None, False),
    ("end", "550 5.7.1 looks like spam", "terminal", "smtp_550_5.7.1", "message", None, False),
    ("end", "554 no", "terminal", "smtp_554", "message", None, False),
    ("end", "535 5.7.8 who was that", "blocked", "smtp_535_5.7.8", "sink", None, False),
    ("greeting", "421 4.3.2 closed", "retry", "smtp_421_4.3.2", None, None, True),
    ("greeting", "421 4.7.0 too many connections", "limited", "smtp_421_4.7.0", "sink", FIVE_MINUTES, False),
    ("greeting", "554 5.7.1 go away", "blocked", "smtp_554_5.7.1", "sink", None, False),
]


@pytest.mark.parametrize("stage, reply, outcome, code, scope, not_before_ms, unreachable", TABLE)
def test_reply(server, stage, reply, outcome, code, scope, not_before_ms, unreachable):
    verdict = verdict_of(server, stage, reply)
    assert short(verdict) == (outcome, code)
    assert (verdict["not_before_ms"], verdict["unreachable"]) == (not_before_ms, unreachable)
    if scope:
        assert verdict["scope"] == scope
    assert server.mails == [] and len(server.seen) == (stage == "end")
    assert reply.split()[-1] in verdict["text"]


def test_words_decide_nothing(server):
    assert short(verdict_of(server, "rcpt", "550 4.7.1 greylisted, please try again later")) == ("terminal", "smtp_550")


def test_greylist_wait_is_a_setting(server):
    verdict = verdict_of(server, "rcpt", "450 4.7.1 greylisted", greylist_wait="90s")
    assert verdict["not_before_ms"] == 90_000


def test_greylisted_then_taken(server):
    server.say["rcpt"] = ["450 4.7.1 greylisted", None]
    verdicts = drive("smtp", server.options(), [MESSAGE, {"wait": True}, MESSAGE])
    assert [v["outcome"] for v in verdicts] == ["retry", "accepted"]
    assert len(server.mails) == 1


def test_one_bad_recipient_harms_no_other(server):
    server.say["rcpt"] = lambda recipient: "550 5.1.1 nobody" if recipient.startswith("nobody") else None
    script = [{**MESSAGE, "recipient": name + "@example.com"} for name in ("a", "nobody", "b")]
    verdicts = {v["handle"]: v["outcome"] for v in drive("smtp", server.options(), script)}
    assert verdicts == {1: "accepted", 2: "terminal", 3: "accepted"}
    assert sorted(mail.recipients for mail in server.mails) == [["a@example.com"], ["b@example.com"]]


def test_size_limit_of_the_server():
    with MailServer(data_size_limit=2000) as server:
        big = {**MESSAGE, "payload": {"subject": "s", "text": "x" * 5000}}
        verdict, = drive("smtp", server.options(), [big])
        assert verdict["outcome"] == "terminal" and verdict["code"].startswith("smtp_552")
        assert server.seen == []


# ---- no reply


@pytest.mark.parametrize("stage", ["greeting", "ehlo", "mail", "rcpt", "data"])
@pytest.mark.parametrize("how", [DROP, RESET])
def test_lost_before_the_mail(server, stage, how):
    verdict = verdict_of(server, stage, how)
    assert (verdict["outcome"], verdict["unreachable"]) == ("retry", True)
    assert server.connections == 1


@pytest.mark.parametrize("how", [DROP, RESET])
def test_lost_behind_the_mail_is_unknown(server, how):
    """The server has it all, and perhaps keeps it: nobody can tell."""
    verdict = verdict_of(server, "end", how)
    assert (verdict["outcome"], verdict["unreachable"]) == ("unknown", True)
    assert verdict["code"] in ("smtp_receive", "smtp_send", "smtp_garbage")
    assert len(server.seen) == 1  # and it was not sent again


@pytest.mark.parametrize("stage, outcome",
                         [("mail", "retry"), ("rcpt", "retry"), ("data", "retry"), ("end", "unknown")])
def test_silence(server, stage, outcome):
    """S11"""
    begin = time.monotonic()
    verdict = verdict_of(server, stage, HANG, response_timeout="1s")
    assert (*short(verdict), verdict["unreachable"]) == (outcome, "smtp_timeout", True)
    assert time.monotonic() - begin < 5 * PATIENCE


def test_silent_greeting(server):
    verdict = verdict_of(server, "greeting", HANG, connect_timeout="500ms")
    assert (*short(verdict), verdict["unreachable"]) == ("retry", "smtp_timeout", True)


def test_nobody_listens():
    with socket.create_server(("127.0.0.1", 0)) as sock:
        port = sock.getsockname()[1]
    options = {"url": "smtp://127.0.0.1:%d" % port, "from": "a@example.org", "tls.mode": "none"}
    verdict, = drive("smtp", options, [MESSAGE])
    assert (*short(verdict), verdict["unreachable"]) == ("retry", "smtp_connect", True)


def test_unknown_host():
    options = {"url": "smtp://mail.invalid:25", "from": "a@example.org", "tls.mode": "none"}
    verdict, = drive("smtp", options, [MESSAGE], deadline=20)
    assert (*short(verdict), verdict["unreachable"]) == ("retry", "smtp_resolve", True)


def test_garbage(server):
    verdict = verdict_of(server, "greeting", "hello there", connect_timeout="500ms")
    assert verdict["outcome"] == "retry" and verdict["unreachable"]


def test_lost_amidst_the_mail_is_no_mail():
    """The end of the mail never left: the server cannot have taken it. A socket that stops reading, then breaks off."""
    with socket.create_server(("127.0.0.1", 0)) as sock:
        sock.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
        options = {"url": "smtp://127.0.0.1:%d" % sock.getsockname()[1], "from": "a@example.org", "tls.mode": "none"}
        big = {**MESSAGE, "payload": {"subject": "s", "text": "x" * 12_000_000}}
        with Drive("smtp", options) as sink:
            sink.send(big)
            peer, _ = sock.accept()
            with peer, peer.makefile("rb") as file:
                peer.sendall(b"220 hi\r\n")
                for reply in (b"250 hi\r\n", b"250 ok\r\n", b"250 ok\r\n", b"354 go\r\n"):
                    file.readline()
                    peer.sendall(reply)
                file.readline()
                peer.shutdown(socket.SHUT_RDWR)
            verdict = sink.verdict()
    assert (verdict["outcome"], verdict["unreachable"]) == ("retry", True)


# ---- the connection


def test_connection_that_died_in_between_costs_nothing(server):
    """421 on a used connection, or its end: the mail goes out over a new one."""
    with Drive("smtp", server.options(connections=1)) as sink:
        for round_ in range(3):
            sink.send(MESSAGE)
            assert sink.verdict()["outcome"] == "accepted"
            server.say["mail"] = [[DROP, None], ["421 4.4.2 idle too long", None], None][round_]
    assert (len(server.mails), server.connections) == (3, 3)


def test_dead_new_connection_is_told(server):
    server.say["mail"] = [None, DROP]
    with Drive("smtp", server.options(connections=1)) as sink:
        sink.send(MESSAGE)
        assert sink.verdict()["outcome"] == "accepted"
        sink.send(MESSAGE)
        assert sink.verdict()["outcome"] == "retry"
    assert server.connections == 2  # one more try, not many


def test_idle_connection_says_goodbye(server):
    with Drive("smtp", server.options(idle="200ms")) as sink:
        sink.send(MESSAGE)
        assert sink.verdict()["outcome"] == "accepted"
        end = time.monotonic() + 10 * PATIENCE
        while server.open and time.monotonic() < end:
            time.sleep(0.02)
        assert server.sessions[0].lines[-1] == "QUIT" and server.open == 0
        sink.send(MESSAGE)
        assert sink.verdict()["outcome"] == "accepted"
    assert server.connections == 2


def test_end_of_the_sink_says_goodbye(server):
    drive("smtp", server.options(), [MESSAGE])
    assert server.sessions[0].lines == ["EHLO", "MAIL", "QUIT"]


@pytest.mark.parametrize("stage", ["greeting", "rcpt", "end"])
def test_cancel_ends_at_once(server, stage):
    """S11: the host's timeout is final, whatever libcurl waits for."""
    server.say[stage] = [HANG, None]
    with Drive("smtp", server.options(connections=1)) as sink:
        sink.send(MESSAGE, {"sleep_ms": 300}, {"cancel": 1}, MESSAGE)
        begin = time.monotonic()
        verdict = sink.verdict()
        assert (verdict["handle"], verdict["outcome"]) == (2, "accepted")
        assert time.monotonic() - begin < 3 * PATIENCE
    assert len(server.mails) == 1


def test_cancel_of_one_that_waits(server):
    server.say["end"] = [HANG, None]
    with Drive("smtp", server.options(connections=1)) as sink:
        sink.send(MESSAGE, MESSAGE, MESSAGE, {"sleep_ms": 200}, {"cancel": 2}, {"cancel": 1})
        assert sink.verdict()["handle"] == 3
    assert len(server.mails) == 1


def test_one_that_waits_long_is_given_back(server):
    """S11: the host would cancel it in the end, and would have to take it for sent."""
    server.say["end"] = [HANG, None]
    with Drive("smtp", server.options(connections=1), deadline=20) as sink:
        sink.send(MESSAGE, MESSAGE, {"sleep_ms": 2000}, MESSAGE)
        for handle in (2, 3):
            verdict = sink.verdict()
            assert (verdict["handle"], *short(verdict), verdict["unreachable"]) == (handle, "not_sent", "smtp_busy", False)
            assert verdict["not_before_ms"] > 0 and 4000 < verdict["elapsed_ms"] < 15000 * PATIENCE
        sink.send({"cancel": 1}, MESSAGE)
        assert sink.verdict()["outcome"] == "accepted"
    assert len(server.mails) == 1


@pytest.mark.parametrize("stage", ["greeting", "end"])
def test_close_does_not_wait(server, stage):
    server.say[stage] = HANG
    begin = time.monotonic()
    drive("smtp", server.options(), [MESSAGE, MESSAGE, {"sleep_ms": 300}, {"close": True}], statuses=(0, 3))
    assert time.monotonic() - begin < 4 * PATIENCE


def test_slow_server_holds_nothing_else_up(server):
    """The loop turns while libcurl waits for the reply to a mail."""
    server.say["end"] = HANG
    wrong = {**MESSAGE, "recipient": "no address"}
    with Drive("smtp", server.options()) as sink:
        sink.send(MESSAGE, {"sleep_ms": 200}, wrong)
        verdict = sink.verdict()
        assert (verdict["handle"], verdict["outcome"]) == (2, "terminal")
        sink.send({"cancel": 1})


# ---- the probe


def test_probe_of_nobody():
    with socket.create_server(("127.0.0.1", 0)) as sock:
        port = sock.getsockname()[1]
    options = {"url": "smtp://127.0.0.1:%d" % port, "from": "a@example.org"}
    assert short(drive("smtp", options, [{"probe": True}])[0]) == ("retry", "smtp_connect")


# ---- settings


@pytest.mark.parametrize("more, text", [
    ({"url": "http://127.0.0.1"}, "smtp://host:port"), ({"url": "smtp://u:p@host"}, "user and password"),
    ({"url": "smtps://host"}, "tls.mode cannot be none"), ({"url": "smtp://host/x"}, "ehlo"),
    ({"from": "nobody"}, "not an email address"), ({"from": "Shop <a@b.example"}, "NAME <ADDRESS>"),
    ({"from": "a@b.example\r\nBcc: x@y.example"}, "not an email address"), ({"to": "a b@c.example"}, "not an email address"),
    ({"envelope_from": "<a@c.example>"}, "not an email address"), ({"domain": "a b"}, "domain"), ({"ehlo": "a\tb"}, "ehlo"),
    ({"user": "x"}, "or neither"), ({"password": "x"}, "or neither"), ({"subject": "{{a"}, "subject: "),
    ({"headers.Bcc": "x@y.example"}, "Bcc"), ({"headers.X-A": "a\nb"}, "control"), ({"pass_headers": "From"}, "From"),
    ({"attachments_dir": "/nowhere/at/all"}, "attachments_dir"), ({"tls.ca": "/nowhere/ca"}, "cannot be read")])
def test_wrong_settings_are_refused(server, more, text):
    with pytest.raises(OpenError) as refusal:
        drive("smtp", server.options(**more), [])
    assert text in str(refusal.value)


# ---- what is ours


def test_a_shortage_of_our_own_costs_nothing():
    """S13: no descriptor is left for a connection. Nobody refused anything, so no attempt is spent and no breaker opens."""
    with socket.create_server(("127.0.0.1", 0)) as sock:
        gone = "smtp://127.0.0.1:%d" % sock.getsockname()[1]
    for limit in range(40, 8, -1):
        try:
            with Drive("smtp", {"url": gone, "from": "a@example.org"}, prefix=["prlimit", "--nofile=%d" % limit]) as sink:
                sink.send(MESSAGE)
                verdict = sink.verdict()
        except (OpenError, AssertionError):
            break
        if (verdict["outcome"], verdict["unreachable"]) != ("retry", True):
            assert (verdict["outcome"], verdict["unreachable"]) == ("not_sent", False)
            assert verdict["not_before_ms"] > 0
            return
    raise AssertionError("the limit was never met")


def test_no_descriptor_for_an_attachment(server, tmp_path):
    """S13: nor is the file to blame for that."""
    (tmp_path / "a.txt").write_text("x")
    mail = {**MESSAGE, "payload": {"subject": "s", "text": "t", "attachments": [{"path": "a.txt"}]}}
    env = preload(tmp_path, "starved", """
        #include <errno.h>
        int openat(int at, const char *path, int flags, ...) { errno = EMFILE; return -1; }
        int openat64(int at, const char *path, int flags, ...) { errno = EMFILE; return -1; }
        int __openat_2(int at, const char *path, int flags) { errno = EMFILE; return -1; } /* as FORTIFY calls them */
        int __openat64_2(int at, const char *path, int flags) { errno = EMFILE; return -1; }""")
    verdict, = drive("smtp", server.options(attachments_dir=tmp_path), [mail], env=env)
    assert (*short(verdict), verdict["unreachable"]) == ("not_sent", "smtp_attachment_unreadable", False)
    assert verdict["not_before_ms"] > 0 and server.connections == 0


def test_environment_names_no_proxy(server):
    with socket.create_server(("127.0.0.1", 0)) as proxy:
        proxy.setblocking(False)
        url = "http://127.0.0.1:%d" % proxy.getsockname()[1]
        env = {name: url for name in ("smtp_proxy", "SMTP_PROXY", "all_proxy", "ALL_PROXY")}
        verdict, = drive("smtp", server.options(), [MESSAGE], env=env)
        assert (verdict["outcome"], len(server.mails)) == ("accepted", 1)
        with pytest.raises(BlockingIOError):
            proxy.accept()
