"""The http sink over TLS: whom it believes, how it shows itself, HTTP/2. Proves: N3, S13."""
import ssl

import pytest

from support.receiver import Receiver, certificate, status, tls_context
from support.sinkdrive import Drive, OpenError, drive, needs_kind

pytestmark = needs_kind("http")

MESSAGE = {"topic": "a", "payload": {}}


def options(receiver, **more):
    return {"url": receiver.url(), "allow": "127.0.0.0/8", **more}


@pytest.fixture
def server(tmp_path):
    cert, key = certificate(tmp_path)
    with Receiver(status(200), tls=tls_context(cert, key)) as receiver:
        receiver.cert = cert
        yield receiver


def test_certificate_of_a_known_authority(server):
    script = [MESSAGE, {"wait": True}, MESSAGE]
    verdicts = drive("http", options(server, **{"tls.ca": server.cert}), script)
    assert [v["outcome"] for v in verdicts] == ["accepted"] * 2
    assert server.connections == 1


def test_unknown_certificate_blocks_the_sink(server):
    verdict, = drive("http", options(server), [MESSAGE])
    assert (verdict["outcome"], verdict["code"], verdict["scope"]) == ("blocked", "http_tls_certificate", "sink")
    assert server.requests == []


def test_probe_sees_the_certificate(server):
    assert drive("http", options(server), [{"probe": True}])[0]["code"] == "http_tls_certificate"
    assert drive("http", options(server, **{"tls.ca": server.cert}), [{"probe": True}])[0]["outcome"] == "accepted"
    assert server.requests == []


def test_certificate_of_another_name(tmp_path):
    cert, key = certificate(tmp_path, "other.example")
    with Receiver(tls=tls_context(cert, key)) as receiver:
        verdict, = drive("http", options(receiver, **{"tls.ca": cert}), [MESSAGE])
        assert (verdict["outcome"], verdict["code"]) == ("blocked", "http_tls_certificate")


def test_expired_certificate(tmp_path):
    cert, key = certificate(tmp_path, days=-1)
    with Receiver(tls=tls_context(cert, key)) as receiver:
        verdict, = drive("http", options(receiver, **{"tls.ca": cert}), [MESSAGE])
        assert (verdict["outcome"], verdict["code"]) == ("blocked", "http_tls_certificate")


@pytest.mark.filterwarnings("ignore::DeprecationWarning")
@pytest.mark.parametrize("version", ["TLSv1", "TLSv1_1"])
def test_old_tls_is_not_spoken(tmp_path, version):
    cert, key = certificate(tmp_path)
    with Receiver(tls=tls_context(cert, key, most=getattr(ssl.TLSVersion, version))) as receiver:
        verdict, = drive("http", options(receiver, **{"tls.ca": cert}), [MESSAGE])
        assert (verdict["outcome"], verdict["code"], receiver.requests) == ("retry", "http_tls", [])


def test_least_version(tmp_path):
    cert, key = certificate(tmp_path)
    with Receiver(tls=tls_context(cert, key, most=ssl.TLSVersion.TLSv1_2)) as receiver:
        assert drive("http", options(receiver, **{"tls.ca": cert}), [MESSAGE])[0]["outcome"] == "accepted"
        verdict, = drive("http", options(receiver, **{"tls.ca": cert, "tls.min": "1.3"}), [MESSAGE])
        assert (verdict["outcome"], verdict["code"]) == ("retry", "http_tls")


def test_receiver_that_speaks_no_tls():
    with Receiver() as receiver:
        url = receiver.url().replace("http:", "https:")
        verdict, = drive("http", {"url": url, "allow": "127.0.0.0/8"}, [MESSAGE])
        assert (verdict["outcome"], verdict["code"], verdict["unreachable"]) == ("retry", "http_tls", True)


def test_own_certificate(tmp_path):
    cert, key = certificate(tmp_path)
    mine, my_key = certificate(tmp_path, "client.example", stem="client")
    with Receiver(tls=tls_context(cert, key, client_ca=mine)) as receiver:
        shown = {"tls.ca": cert, "tls.cert": mine, "tls.key": my_key}
        assert drive("http", options(receiver, **shown), [MESSAGE])[0]["outcome"] == "accepted"
        verdict, = drive("http", options(receiver, **{"tls.ca": cert}), [MESSAGE])
        assert verdict["outcome"] in ("retry", "unknown") and len(receiver.requests) == 1
        verdict, = drive("http", options(receiver, **{**shown, "tls.key": key}), [MESSAGE])
        assert (verdict["outcome"], verdict["code"]) == ("blocked", "http_tls_client")


def test_files_must_be_there(server):
    with pytest.raises(OpenError) as refusal:
        drive("http", options(server, **{"tls.ca": "/nowhere/ca.pem"}), [])
    assert "tls.ca: the file /nowhere/ca.pem cannot be read" in str(refusal.value)


def test_dead_reused_connection_does_not_resend(server):
    done = []

    def behave(request, sock):
        done.append(request)
        return status(200)(request, sock) if len(done) != 2 else False
    server.behave = behave
    with Drive("http", options(server, **{"tls.ca": server.cert})) as sink:
        outcomes = []
        for _ in range(3):
            sink.send(MESSAGE)
            outcomes.append(sink.verdict()["outcome"])
    assert (outcomes, len(server.requests)) == (["accepted", "unknown", "accepted"], 3)
