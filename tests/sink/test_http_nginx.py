"""The http sink before a real web server: connections used again, HTTP/2, a server that stops and comes back.
Proves: N3, S13."""
import pytest

from support.nginx import PROGRAM, Nginx
from support.receiver import certificate
from support.sinkdrive import Drive, drive, needs_kind

pytestmark = [needs_kind("http"), pytest.mark.skipif(not PROGRAM, reason="nginx is not installed")]

MESSAGE = {"topic": "orders.paid", "payload": {"text": "x" * 180}}


def options(nginx, **more):
    return {"url": nginx.url("/hook"), "allow": "127.0.0.0/8", **more}


def test_many_messages_over_few_connections(tmp_path):
    with Nginx(tmp_path) as nginx:
        script = []
        for _ in range(50):
            script += [{"batch": [MESSAGE] * 16}, {"wait": True}]
        verdicts = drive("http", options(nginx, connections=16), script, deadline=30)
        assert [v["outcome"] for v in verdicts] == ["accepted"] * 800
    requests = nginx.counted()
    assert len(requests) == 800 and {r[2:] for r in requests} == {("204", "HTTP/1.1")}
    assert len({r[0] for r in requests}) <= 16


def test_http2_over_tls(tmp_path):
    pair = certificate(tmp_path)
    with Nginx(tmp_path, tls=pair, listen=" http2") as nginx:
        script = [MESSAGE, {"wait": True}, {"batch": [MESSAGE] * 100}, {"wait": True}, {"batch": [MESSAGE] * 100}]
        verdicts = drive("http", options(nginx, **{"tls.ca": pair[0], "version": "auto", "connections": 2}), script)
        assert [v["outcome"] for v in verdicts] == ["accepted"] * 201
    requests = nginx.counted()
    assert {r[3] for r in requests} == {"HTTP/2.0"}
    assert len({r[0] for r in requests}) <= 2


def test_http2_from_the_first_byte(tmp_path):
    with Nginx(tmp_path, listen=" http2") as nginx:
        assert drive("http", options(nginx, version="2"), [MESSAGE])[0]["outcome"] == "accepted"
    assert nginx.counted()[0][3] == "HTTP/2.0"


def test_http11_unless_asked(tmp_path):
    pair = certificate(tmp_path)
    with Nginx(tmp_path, tls=pair, listen=" http2") as nginx:
        verdict, = drive("http", options(nginx, **{"tls.ca": pair[0]}), [MESSAGE])
        assert verdict["outcome"] == "accepted"
    assert nginx.counted()[0][3] == "HTTP/1.1"


def test_too_large_is_terminal(tmp_path):
    with Nginx(tmp_path, "location / { proxy_pass http://127.0.0.1:1/; }") as nginx:
        verdict, = drive("http", options(nginx), [{"topic": "a", "payload": "x" * 2_000_000}])
        assert (verdict["outcome"], verdict["code"]) == ("terminal", "http_413")


def test_gateway_without_anything_behind_it(tmp_path):
    with Nginx(tmp_path, "location / { proxy_pass http://127.0.0.1:1/; }") as nginx:
        verdict, = drive("http", options(nginx), [MESSAGE])
        assert (verdict["outcome"], verdict["code"], verdict["unreachable"]) == ("retry", "http_502", True)


def test_server_stops_and_comes_back(tmp_path):
    nginx = Nginx(tmp_path)
    with nginx, Drive("http", options(nginx)) as sink:
        sink.send(MESSAGE)
        assert sink.verdict()["outcome"] == "accepted"
        nginx.stop()
        sink.send(MESSAGE)
        verdict = sink.verdict()
        assert (verdict["outcome"], verdict["code"], verdict["unreachable"]) == ("retry", "http_connect", True)
        nginx.start()
        sink.send(MESSAGE)
        assert sink.verdict()["outcome"] == "accepted"
