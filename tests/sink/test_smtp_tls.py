"""The smtp sink over TLS: whom it believes, how it shows itself, what it makes of a handshake that fails; and logging in.
Proves: N3, S13."""
import socket
import ssl
import struct
import threading

import pytest

from support.mailserver import MailServer
from support.receiver import certificate, tls_context
from support.sinkdrive import drive, needs_kind

pytestmark = [needs_kind("smtp"), pytest.mark.filterwarnings("ignore:Requiring AUTH while not requiring TLS")]

MESSAGE = {"topic": "mail.welcome", "recipient": "zoe@example.com", "payload": {"subject": "Hello", "text": "Welcome"}}


@pytest.fixture
def server():
    with MailServer() as server:
        yield server


def short(verdict):
    return verdict["outcome"], verdict["code"]


# ---- TLS


@pytest.fixture
def tls(tmp_path):
    cert, key = certificate(tmp_path)
    return cert, tls_context(cert, key)


@pytest.mark.parametrize("implicit", [False, True])
def test_tls(tls, implicit):
    cert, context = tls
    with MailServer(tls=context, implicit=implicit, require_starttls=not implicit) as server:
        script = [MESSAGE, {"wait": True}, MESSAGE]
        verdicts = drive("smtp", server.options(connections=1, **{"tls.ca": cert}), script)
        assert [v["outcome"] for v in verdicts] == ["accepted"] * 2
        assert (len(server.mails), server.connections) == (2, 1)


def test_unknown_certificate(tls):
    with MailServer(tls=tls[1]) as server:
        verdict, = drive("smtp", server.options(), [MESSAGE])
        assert (*short(verdict), verdict["scope"]) == ("blocked", "smtp_tls_certificate", "sink")
        assert server.seen == [] and "MAIL" not in server.sessions[0].lines


def test_certificate_of_another_name(tmp_path):
    cert, key = certificate(tmp_path, "other.example")
    with MailServer(tls=tls_context(cert, key)) as server:
        verdict, = drive("smtp", server.options(**{"tls.ca": cert}), [MESSAGE])
        assert short(verdict) == ("blocked", "smtp_tls_certificate")


def test_no_starttls_is_no_mail(server):
    """TLS is required unless the operator says otherwise: no server can talk us out of it."""
    options = server.options()
    del options["tls.mode"]
    verdict, = drive("smtp", options, [MESSAGE])
    assert (*short(verdict), verdict["scope"]) == ("blocked", "smtp_tls_missing", "sink")
    assert server.seen == [] and "MAIL" not in server.sessions[0].lines


# ---- a handshake that fails: nothing was sent, and the next may go well


def test_handshake_with_who_speaks_none(server):
    options = {**server.options(), "url": server.url().replace("smtp:", "smtps:")}
    del options["tls.mode"]
    verdict, = drive("smtp", options, [MESSAGE])
    assert (*short(verdict), verdict["unreachable"]) == ("retry", "smtp_tls", True)
    assert server.seen == []


@pytest.mark.parametrize("reset", [False, True])
def test_connection_lost_in_the_handshake(reset):
    """A server that restarts, or is too busy for one more."""
    with socket.create_server(("127.0.0.1", 0)) as sock:
        def behave():
            peer, _ = sock.accept()
            peer.recv(5)
            if reset:
                peer.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
            peer.close()
        thread = threading.Thread(target=behave)
        thread.start()
        options = {"url": "smtps://127.0.0.1:%d" % sock.getsockname()[1], "from": "a@example.org"}
        verdict, = drive("smtp", options, [MESSAGE])
        thread.join()
    assert (*short(verdict), verdict["unreachable"]) == ("retry", "smtp_tls", True)


@pytest.mark.parametrize("implicit", [False, True])
def test_least_version(tmp_path, implicit):
    cert, key = certificate(tmp_path)
    with MailServer(tls=tls_context(cert, key, most=ssl.TLSVersion.TLSv1_2), implicit=implicit) as server:
        options = server.options(**{"tls.ca": cert})
        assert drive("smtp", options, [MESSAGE])[0]["outcome"] == "accepted"
        verdict, = drive("smtp", {**options, "tls.min": "1.3"}, [MESSAGE])
        assert (*short(verdict), len(server.seen)) == ("retry", "smtp_tls", 1)


@pytest.mark.filterwarnings("ignore::DeprecationWarning")
def test_old_tls_is_not_spoken(tmp_path):
    cert, key = certificate(tmp_path)
    with MailServer(tls=tls_context(cert, key, most=ssl.TLSVersion.TLSv1_1)) as server:
        verdict, = drive("smtp", server.options(**{"tls.ca": cert}), [MESSAGE])
        assert (*short(verdict), server.seen) == ("retry", "smtp_tls", [])


def test_starttls_not_now(tls):
    """454 is no word about TLS as such."""
    with MailServer(tls=tls[1]) as server:
        server.say["starttls"] = "454 4.7.0 not available due to temporary reason"
        verdict, = drive("smtp", server.options(**{"tls.ca": tls[0]}), [MESSAGE])
        assert (*short(verdict), verdict["unreachable"]) == ("retry", "smtp_454_4.7.0", True)
        assert server.seen == [] and "MAIL" not in server.sessions[0].lines


def test_own_certificate(tmp_path):
    cert, key = certificate(tmp_path)
    mine, my_key = certificate(tmp_path, "client.example", stem="client")
    with MailServer(tls=tls_context(cert, key, client_ca=mine)) as server:
        shown = {"tls.ca": cert, "tls.cert": mine, "tls.key": my_key}
        assert drive("smtp", server.options(**shown), [MESSAGE])[0]["outcome"] == "accepted"
        assert drive("smtp", server.options(**{"tls.ca": cert}), [MESSAGE])[0]["outcome"] == "retry"
        verdict, = drive("smtp", server.options(**{**shown, "tls.key": key}), [MESSAGE])
        assert short(verdict) == ("blocked", "smtp_tls_client") and len(server.seen) == 1


# ---- the login


@pytest.mark.parametrize("reply, code", [
    ("534 5.7.9 too weak", "smtp_534_5.7.9"), ("538 5.7.11 encrypt first", "smtp_538_5.7.11"), ("535 no", "smtp_535"),
    ("550 5.7.9 no", "smtp_550_5.7.9")])
def test_login_refused(reply, code):
    with MailServer(auth=("shop", "right")) as server:
        server.say["auth"] = reply
        verdict, = drive("smtp", server.options(user="shop", password="right"), [MESSAGE])
        assert (*short(verdict), verdict["scope"], server.seen) == ("blocked", code, "sink", [])


def test_login_not_now():
    """454: whoever knows the passwords is away. Nothing is wrong with ours."""
    with MailServer(auth=("shop", "right")) as server:
        server.say["auth"] = "454 4.7.0 temporary authentication failure"
        verdict, = drive("smtp", server.options(user="shop", password="right"), [MESSAGE])
        assert (*short(verdict), verdict["unreachable"], server.seen) == ("retry", "smtp_454_4.7.0", True, [])


@pytest.mark.parametrize("auth", ["auto", "plain", "login"])
def test_login(tls, auth):
    cert, context = tls
    with MailServer(tls=context, auth=("shop", "secret word")) as server:
        options = server.options(user="shop", password="secret word", auth=auth, **{"tls.ca": cert})
        assert drive("smtp", options, [MESSAGE])[0]["outcome"] == "accepted"


def test_wrong_password(server):
    with MailServer(auth=("shop", "right")) as server:
        verdict, = drive("smtp", server.options(user="shop", password="wrong-one"), [MESSAGE])
        assert (*short(verdict), verdict["scope"]) == ("blocked", "smtp_535_5.7.8", "sink")
        assert "wrong-one" not in str(verdict) and server.seen == []


def test_login_needed_and_none_configured():
    with MailServer(auth=("shop", "right")) as server:
        verdict, = drive("smtp", server.options(), [MESSAGE])
        assert (verdict["outcome"], verdict["code"]) == ("blocked", "smtp_530_5.7.0")


def test_login_configured_and_none_offered(server):
    verdict, = drive("smtp", server.options(user="shop", password="x"), [MESSAGE])
    assert (*short(verdict), verdict["scope"]) == ("blocked", "smtp_login", "sink")
    assert "MAIL" not in server.sessions[0].lines


def test_probe(tls):
    cert, context = tls
    with MailServer(tls=context, auth=("shop", "right")) as server:
        options = server.options(user="shop", password="right", **{"tls.ca": cert})
        assert drive("smtp", options, [{"probe": True}])[0]["outcome"] == "accepted"
        assert server.sessions[0].lines[-2:] == ["NOOP", "QUIT"] and "MAIL" not in server.sessions[0].lines
        assert short(drive("smtp", {**options, "password": "x"}, [{"probe": True}])[0]) == ("blocked", "smtp_535_5.7.8")
        del options["tls.ca"]
        assert short(drive("smtp", options, [{"probe": True}])[0]) == ("blocked", "smtp_tls_certificate")
        assert server.seen == []
