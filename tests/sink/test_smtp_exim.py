"""Email to a mainstream mail server: exim, with its own queue, delivers into a mailbox what we sent. And a thousand
mails: over few connections, beside one connection for each. Proves: Y2, Y7, S13."""
import re
import time

import pytest

from support.exim import Exim, needs_exim
from support.mailserver import text_of
from support.receiver import certificate
from support.sinkdrive import Drive, drive, needs_kind
from support.under import PATIENCE

pytestmark = [needs_kind("smtp"), needs_exim]


def message(n=0, **more):
    payload = {"subject": "Bestellung %d – größer" % n, "text": "Straße\n.\n..dots\n" + "x" * 2000,
               "html": "<p>Straße</p>", **more}
    return {"topic": "mail.order", "recipient": "zoe%d@example.org" % n, "payload": payload,
            "id": "018bcfe5-6800-7abc-8def-%012x" % n}


def test_mail_arrives_whole():
    with Exim() as exim:
        verdict, = drive("smtp", exim.options(**{"tls.mode": "none"}), [message()])
        assert verdict["outcome"] == "accepted"
        assert re.search(r"^\S+ \S+ %s <= shop@example.org" % verdict["reference"], exim.log(), re.MULTILINE)
        exim.wait(1)
        mail, = exim.mails()
        assert mail["Subject"] == "Bestellung 0 – größer"
        assert mail["Envelope-To"] == "zoe0@example.org" and "shop@example.org" in mail["Return-Path"]
        assert mail["Message-ID"] == "<018bcfe5-6800-7abc-8def-000000000000@example.org>"
        assert text_of(mail.get_body(("plain",))) == "Straße\n.\n..dots\n" + "x" * 2000
        assert text_of(mail.get_body(("html",))) == "<p>Straße</p>"


def test_refusals_by_code():
    with Exim() as exim:
        nobody = {**message(), "recipient": "nobody@example.org"}
        elsewhere = {**message(), "recipient": "x@elsewhere.example"}
        large = message(text="x" * 3_000_000)
        verdicts = drive("smtp", exim.options(**{"tls.mode": "none"}), [nobody, elsewhere, large])
        found = {v["handle"]: v for v in verdicts}
        assert [(found[i]["outcome"], found[i]["code"]) for i in (1, 2)] == \
            [("terminal", "smtp_550_5.1.1"), ("terminal", "smtp_550_5.7.1")]
        assert found[3]["outcome"] == "terminal" and found[3]["code"].startswith("smtp_552")


def test_tls_and_login(tmp_path):
    cert, key = certificate(tmp_path)
    with Exim(tls=(cert, key)) as exim:
        options = exim.options(user="shop", password="right", **{"tls.ca": cert})
        assert drive("smtp", options, [{"probe": True}])[0]["outcome"] == "accepted"
        assert drive("smtp", options, [message()])[0]["outcome"] == "accepted"
        assert re.search(r"<= shop@example.org .* X=TLS1\.\d.* A=plain:shop", exim.log())
        verdict, = drive("smtp", {**options, "password": "wrong"}, [message()])
        assert (verdict["outcome"], verdict["code"]) == ("blocked", "smtp_535")
        exim.wait(1)
        assert len(exim.mails()) == 1


@pytest.mark.parametrize("kill", [False, True])
def test_server_goes_away_and_comes_back(kill):
    """What was accepted is in the box; what was not is tried again by the relay, here by the test."""
    with Exim() as exim, Drive("smtp", exim.options(connections=2, **{"tls.mode": "none"})) as sink:
        sink.send(*[message(n) for n in range(10)])
        assert all(v["outcome"] == "accepted" for v in sink.verdicts(10).values())
        (exim.process.kill if kill else exim.process.terminate)()
        exim.process.wait(timeout=10)
        exim.process.stderr.close()
        end, left = time.monotonic() + 30 * PATIENCE, set(range(10, 20))
        started = False
        while left and time.monotonic() < end:
            sent = sorted(left)
            sink.send(*[message(n) for n in sent])
            found = sorted(sink.verdicts(len(sent)).items())
            assert {v["outcome"] for _, v in found} <= {"accepted", "retry"}
            left -= {n for n, (_, v) in zip(sent, found) if v["outcome"] == "accepted"}
            if not started:
                exim.start()
                started = True
        assert not left
        exim.wait(20)
        assert sorted(m["Envelope-To"] for m in exim.mails()) == sorted("zoe%d@example.org" % n for n in range(20))


def timed(exim, count, **more):
    """So many mails, some of them at a time; how many a second, and over how many connections."""
    before, had = exim.connections(), exim.log().count(" <= ")
    mails = [message(n, text="Hello", html=None) for n in range(count)]
    with Drive("smtp", exim.options(**{"tls.mode": "none"}, **more), deadline=120) as sink:
        begin = time.monotonic()
        assert sink.relay(mails) == {"accepted"}
        seconds = time.monotonic() - begin
    assert exim.log().count(" <= ") - had == count
    return count / seconds, exim.connections() - before


def test_thousand_mails_over_few_connections():
    """Y7: at most as many connections as the cap allows, and faster than one connection for each mail."""
    cap = 4
    with Exim(queue_only=True) as exim:  # otherwise its deliveries would be what is measured
        rate, used = timed(exim, 1000, connections=cap)
        assert used <= cap
        other, used_by_other = timed(exim, 100, connections=cap, messages_per_connection=1)
        assert used_by_other == 100
    print("\nexim: 1,000 mails at %.0f/s over %d connections; %.0f/s with a connection for each" % (rate, used, other))
    assert rate > other
