"""Where the http sink may go: the address that is dialled, URLs that come with messages, proxies. Nothing here leaves
the machine: what must be refused is refused before it is dialled. Proves: N3."""
import pytest

from support.receiver import Receiver, status
from support.sinkdrive import OpenError, drive, needs_kind

pytestmark = needs_kind("http")

MESSAGE = {"topic": "a", "payload": {}}


@pytest.fixture
def receiver():
    with Receiver() as receiver:
        yield receiver


# ---- addresses


@pytest.mark.parametrize("host", [
    "127.0.0.1", "127.1", "0x7f000001", "2130706433", "0177.0.0.1", "0.0.0.0", "localhost", "10.0.0.1", "172.16.0.1",
    "172.31.255.255", "192.168.1.1", "169.254.169.254", "100.64.0.1", "100.100.100.200", "198.18.0.1", "192.0.0.1",
    "224.0.0.1", "255.255.255.255", "240.0.0.1", "[::]", "[::1]", "[::ffff:127.0.0.1]", "[::ffff:169.254.169.254]",
    "[::127.0.0.1]", "[::ffff:0:10.0.0.1]", "[64:ff9b::a9fe:a9fe]", "[64:ff9b:1::1]", "[fc00::1]", "[fd00:ec2::254]",
    "[fe80::1]", "[fec0::1]", "[ff02::1]", "[2002:7f00:1::]", "[2001::1]", "[2001:db8::1]", "[3fff::1]", "[100::1]",
    "[5f00::1]"])
def test_address_is_refused_before_it_is_dialled(host):
    verdict, = drive("http", {"url": "http://%s:9/" % host}, [MESSAGE])
    assert (verdict["outcome"], verdict["code"]) == ("blocked", "http_address_refused")
    assert verdict["scope"] == "sink"
    assert "allow" in verdict["text"]


def test_refused_address_gets_no_connection(receiver):
    verdict, = drive("http", {"url": receiver.url()}, [MESSAGE])
    assert (verdict["code"], receiver.connections) == ("http_address_refused", 0)
    verdict, = drive("http", {"url": receiver.url()}, [{"probe": True}])
    assert (verdict["code"], receiver.connections) == ("http_address_refused", 0)


def test_name_that_leads_to_a_refused_address(receiver):
    verdict, = drive("http", {"url": receiver.url(host="localhost")}, [MESSAGE])
    assert (verdict["code"], receiver.connections) == ("http_address_refused", 0)


def test_one_address_is_allowed_and_its_neighbour_is_not(receiver):
    options = {"allow": "127.0.0.1/32"}
    assert drive("http", {"url": receiver.url(), **options}, [MESSAGE])[0]["outcome"] == "accepted"
    verdict, = drive("http", {"url": receiver.url(host="127.0.0.2"), **options}, [MESSAGE])
    assert verdict["code"] == "http_address_refused"


def test_mapped_address_passes_by_the_rule_for_ipv4(receiver):
    verdict, = drive("http", {"url": receiver.url(host="[::ffff:127.0.0.1]"), "allow": "127.0.0.0/8"}, [MESSAGE])
    assert verdict["outcome"] == "accepted"


@pytest.mark.parametrize("allow", ["::/1", "::/0", "::1/128"])
def test_range_of_ipv6_does_not_let_ipv4_in(receiver, allow):
    verdict, = drive("http", {"url": receiver.url(), "allow": allow}, [MESSAGE])
    assert verdict["code"] == "http_address_refused"


def test_ipv6_loopback():
    with Receiver(host="::1") as receiver:
        assert drive("http", {"url": receiver.url(), "allow": "::1"}, [MESSAGE])[0]["outcome"] == "accepted"
        assert drive("http", {"url": receiver.url()}, [MESSAGE])[0]["code"] == "http_address_refused"


def test_any_turns_the_guard_off(receiver):
    assert drive("http", {"url": receiver.url(), "allow": "any"}, [MESSAGE])[0]["outcome"] == "accepted"


@pytest.mark.parametrize("bad", ["127.0.0.0/33", "127.0.0.1/", "localhost", "10.0.0.0/-1", "::/129", "", "10.0.0.0/8x"])
def test_ranges_are_checked(bad):
    with pytest.raises(OpenError) as refusal:
        drive("http", {"url": "http://example.invalid/", "allow": bad}, [])
    assert "not an address range" in str(refusal.value)


def test_environment_names_no_proxy(receiver):
    """A proxy would be dialled instead of the address that was checked."""
    with Receiver() as proxy:
        env = {name: proxy.url("") for name in ("http_proxy", "HTTP_PROXY", "https_proxy", "all_proxy", "ALL_PROXY")}
        verdict, = drive("http", {"url": receiver.url(), "allow": "127.0.0.0/8"}, [MESSAGE], env=env)
        assert (verdict["outcome"], proxy.connections, len(receiver.requests)) == ("accepted", 0, 1)


def test_proxy_that_is_configured(receiver):
    with Receiver(status(202)) as proxy:
        options = {"url": "http://hooks.example.invalid/x", "proxy": proxy.url(""), "allow": "127.0.0.0/8"}
        verdict, = drive("http", options, [MESSAGE])
        assert (verdict["outcome"], proxy.requests[0].path) == ("accepted", "http://hooks.example.invalid/x")


# ---- URLs of the configuration


@pytest.mark.parametrize("url, text", [
    ("ftp://example.invalid/", "neither http nor https"), ("file:///etc/passwd", "neither http nor https"),
    ("gopher://example.invalid/", "neither http nor https"), ("example.invalid/x", "cannot be used"),
    ("http://user:pass@example.invalid/", "a user or a password"), ("http://", "cannot be used"),
    ("http://a b/", "characters a URL does not have"), ("http://a/\r\nX: 1", "characters a URL does not have")])
def test_url_that_cannot_be_used(url, text):
    with pytest.raises(OpenError) as refusal:
        drive("http", {"url": url}, [])
    assert text in str(refusal.value)
    assert "pass@" not in str(refusal.value)


def test_somewhere_it_must_go():
    with pytest.raises(OpenError) as refusal:
        drive("http", {}, [])
    assert "set url" in str(refusal.value)
    with pytest.raises(OpenError) as refusal:
        drive("http", {"url_header": "x-url"}, [])
    assert "url_allow" in str(refusal.value)


# ---- URLs of messages


def per_message(receiver, *places, **more):
    return {"url_header": "X-Url", "url_allow": list(places) or receiver.url("/hooks"), "allow": "127.0.0.0/8", **more}


def to(url):
    return {"topic": "a", "payload": {}, "headers": {"x-url": url}}


def test_message_names_its_url(receiver):
    verdicts = drive("http", per_message(receiver), [to(receiver.url("/hooks/a?b=c#d")), to(receiver.url("/hooks"))])
    assert [v["outcome"] for v in verdicts] == ["accepted", "accepted"]
    assert sorted(r.path for r in receiver.requests) == ["/hooks", "/hooks/a?b=c"]
    assert receiver.requests[0].header("x-url") is None


def test_paths_are_compared_as_servers_read_them(receiver):
    paths = ["/ho%6fks/a", "/%68ooks/b%2ejson", "/hooks/c;v=1", "/hooks/caf%C3%A9", "/hooks/100%25", "/hooks/a..b", "/hooks/..."]
    verdicts = drive("http", per_message(receiver), [to(receiver.url(path)) for path in paths])
    assert [v["outcome"] for v in verdicts] == ["accepted"] * len(paths)
    assert sorted(r.path for r in receiver.requests) == sorted(paths)


def test_message_without_one_goes_to_the_default_or_is_dead(receiver):
    verdict, = drive("http", per_message(receiver), [MESSAGE])
    assert (verdict["outcome"], verdict["code"]) == ("terminal", "http_url_refused")
    script = [to(receiver.url("/hooks/own")), {"wait": True}, MESSAGE]
    assert {v["outcome"] for v in drive("http", per_message(receiver, receiver.url("/hooks"),
                                                           url=receiver.url("/default")), script)} == {"accepted"}
    assert [r.path for r in receiver.requests] == ["/hooks/own", "/default"]


@pytest.mark.parametrize("make", [
    lambda r: r.url("/other"), lambda r: r.url("/hooksx"), lambda r: r.url("/hooks/../other"),
    lambda r: r.url("/hooks/%2e%2e/other"), lambda r: r.url("/hooks/..%2fother"), lambda r: r.url("/hooks/..\\other"),
    *[lambda r, path=path: r.url("/hooks/" + path) for path in (
        "..;/other", "..;a=b/other", ".;/x", "%2e%2e;/other", "..%3b/other", "%252e%252e/other", "%252e%252e%252fother",
        "%25252e%25252e/other", "..%255cother", "%c0%ae%c0%ae/other", "%c0%af..%c0%afother", "%e0%80%ae%e0%80%ae/other",
        "%f0%80%80%ae/other", "%c1%9cother", "%u002e%u002e/other", "x%00/other", "x%0d%0aHost:y", "%ff/other",
        "%2525252525252525252e./other")],
    lambda r: r.url("/hooks", host="localhost"), lambda r: r.url("/hooks", host="127.0.0.1.evil.invalid"),
    lambda r: r.url("/hooks").replace("http:", "https:"), lambda r: r.url("/hooks").replace(str(r.port), "1"),
    lambda r: "http://127.0.0.1:%d@evil.invalid/hooks" % r.port, lambda r: "http://u:p@127.0.0.1:%d/hooks" % r.port,
    lambda r: "http://evil.invalid#@127.0.0.1:%d/hooks" % r.port, lambda r: "http://evil.invalid/%s" % r.url("/hooks"),
    lambda r: "//127.0.0.1:%d/hooks" % r.port, lambda r: "/hooks", lambda r: "", lambda r: "file:///hooks",
    lambda r: r.url("/hooks/x y"), lambda r: r.url("/hooks/é"), lambda r: r.url("/hooks/" + "x" * 9000)])
def test_message_may_not_leave_its_places(receiver, make):
    verdict, = drive("http", per_message(receiver), [to(make(receiver))])
    assert (verdict["outcome"], verdict["code"]) == ("terminal", "http_url_refused")
    assert receiver.connections == 0


def test_message_may_not_lead_to_a_refused_address(receiver):
    options = {"url_header": "x-url", "url_allow": "http://10.0.0.1/"}
    verdict, = drive("http", options, [to("http://10.0.0.1/x")])
    assert (verdict["outcome"], verdict["code"]) == ("terminal", "http_address_refused")


def test_bare_host_means_https(receiver):
    verdict, = drive("http", per_message(receiver, "127.0.0.1"), [to(receiver.url("/hooks"))])
    assert verdict["code"] == "http_url_refused"


def test_what_is_wrong_with_one_recipient_is_no_matter_of_others(receiver):
    receiver.behave = status(410)
    verdict, = drive("http", per_message(receiver), [to(receiver.url("/hooks/gone"))])
    assert (verdict["outcome"], verdict["scope"], verdict["unreachable"]) == ("blocked", "recipient", False)
    receiver.behave = status(503)
    verdict, = drive("http", per_message(receiver), [to(receiver.url("/hooks/down"))])
    assert (verdict["outcome"], verdict["unreachable"]) == ("retry", False)


@pytest.mark.parametrize("place", ["", "http://h/?q=1", "host/path", "http://u:p@h/", "ftp://h/"])
def test_places_are_checked(receiver, place):
    with pytest.raises(OpenError) as refusal:
        drive("http", per_message(receiver, place), [])
    assert "url_allow" in str(refusal.value)
