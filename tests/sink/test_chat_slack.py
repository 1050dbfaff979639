"""The slack sink, by token and by webhook, against a server that speaks what Slack documents. Proves: V5, V6, V16, S13, Y2.
"""
import os
import re

import pytest

from support.chatservers import SlackServer, authority
from support.receiver import certificate
from support.sinkdrive import OpenError, drive, needs_kind

pytestmark = needs_kind("slack")

ID = "0190f3c8-0000-7000-8000-000000000001"


def message(text="hello", **more):
    return {"topic": "orders.paid", "id": ID, "payload": {"text": text}, **more}


@pytest.fixture(scope="module")
def tls(tmp_path_factory):
    return authority(tmp_path_factory.mktemp("tls"))


@pytest.fixture
def slack(tls):
    with SlackServer(tls) as server:
        yield server


def one(server, msg=None, **more):
    verdict, = drive("slack", server.options(**{"channel": "C1", **more}), [msg or message()])
    return verdict


def hooked(server, msg=None, **more):
    verdict, = drive("slack", server.webhook_options(**more), [msg or message()])
    return verdict


# ---- what is sent

def test_message_arrives(slack):
    """The same on the real service: OUTBOX_TEST_SLACK_TOKEN and OUTBOX_TEST_SLACK_CHANNEL."""
    token, channel = os.environ.get("OUTBOX_TEST_SLACK_TOKEN"), os.environ.get("OUTBOX_TEST_SLACK_CHANNEL")
    options = {"token": token, "channel": channel} if token else slack.options(channel="C1")
    probe, verdict = drive("slack", options, [{"probe": True}, {"wait": True}, message("a < b & *c*")], deadline=30)
    assert (probe["outcome"], verdict["outcome"], verdict["code"]) == ("accepted", "accepted", None)
    assert verdict["reference"].replace(".", "").isdigit()
    if not token:
        assert verdict["reference"] == "1700000000.000001"
        assert slack.channels["C1"].posts == [{
            "channel": "C1", "text": "a &lt; b &amp; *c*", "mrkdwn": False,
            "metadata": {"event_type": "outbox", "event_payload": {"id": ID}}}]


def test_recipient_of_the_message_wins(slack):
    assert one(slack, message(recipient="C2"))["outcome"] == "accepted"
    assert [len(slack.channels[name].posts) for name in ("C1", "C2")] == [0, 1]


def test_payload_cannot_choose_the_channel(slack):
    one(slack, {"topic": "a", "payload": {"text": "x", "channel": "C2", "slack": {"channel": "C2", "thread_ts": "1.2"}}})
    post, = slack.channels["C1"].posts
    assert (post["channel"], post["thread_ts"]) == ("C1", "1.2")
    one(slack, {"topic": "a", "payload": {"text": "raw", "channel": "C2"}}, raw=True)
    assert slack.channels["C1"].posts[1]["channel"] == "C1" and not slack.channels["C2"].posts


@pytest.mark.parametrize("more", [{"raw": True}, {"json_template": '{"text": "{{text}}"}'}])
def test_id_goes_along_whoever_wrote_the_document(slack, more):
    """It is what a delivery without an answer is found by; metadata of one's own stay."""
    metadata = {"event_type": "outbox", "event_payload": {"id": ID}}
    one(slack, message("hi"), **more)
    assert slack.channels["C1"].posts == [{"text": "hi", "channel": "C1", "metadata": metadata}]
    one(slack, message("hi"), metadata=False, **more)
    assert "metadata" not in slack.channels["C1"].posts[1]
    one(slack, message(payload={"text": "hi", "metadata": {"event_type": "own"}}), raw=True)
    assert slack.channels["C1"].posts[2]["metadata"] == {"event_type": "own"}


def test_markup(slack):
    one(slack, message("<https://x.example|*x*>"), mrkdwn=True)
    one(slack, {"topic": "a", "payload": {"who": "<!channel> & co"}}, mrkdwn=True, template="*{{who}}*")
    one(slack, {"topic": "a", "payload": {"who": "<!channel>"}}, template="*{{who}}*")
    assert [(p["text"], p["mrkdwn"]) for p in slack.channels["C1"].posts] == [
        ("<https://x.example|*x*>", True), ("*&lt;!channel&gt; &amp; co*", True), ("*&lt;!channel&gt;*", False)]


def test_blocks_without_text(slack):
    blocks = [{"type": "section", "text": {"type": "mrkdwn", "text": "x" * 3000}}] * 50
    assert one(slack, {"topic": "a", "payload": {"slack": {"blocks": blocks}}})["outcome"] == "accepted"


@pytest.mark.parametrize("payload, code", [
    ({"text": "x" * 40001}, "slack_msg_too_long"), ({"n": 1}, "slack_no_text"), ({"text": ""}, "slack_no_text"),
    ({"slack": {"blocks": [{"type": "divider"}] * 51}}, "slack_invalid_blocks"),
    ({"slack": {"blocks": [{"type": "section", "text": {"type": "mrkdwn", "text": "ä" * 3001}}]}},
     "slack_invalid_blocks")])
def test_limits_are_checked_before_sending(slack, payload, code):
    verdict = one(slack, {"topic": "a", "payload": payload})
    assert (verdict["outcome"], verdict["code"], slack.requests) == ("terminal", code, [])


def test_longest_text(slack):
    assert one(slack, message("ä" * 40000))["outcome"] == "accepted"


# ---- chat.postMessage: 200 that is no yes

ERRORS = {
    "blocked": ["invalid_auth", "not_authed", "token_revoked", "token_expired", "account_inactive", "missing_scope",
                "not_in_channel", "channel_not_found", "is_archived", "user_not_found", "channel_is_archived",
                "restricted_action", "restricted_action_read_only_channel", "restricted_action_thread_only_channel",
                "action_prohibited", "posting_to_general_channel_denied", "not_allowed_token_type", "no_permission",
                "access_denied", "team_access_not_granted", "org_login_required", "no_service", "no_team",
                "team_disabled", "invalid_token"],
    "terminal": ["msg_too_long", "no_text", "invalid_blocks", "msg_blocks_too_long", "invalid_blocks_format",
                 "invalid_attachments", "too_many_attachments", "invalid_arguments", "invalid_payload", "invalid_json",
                 "json_not_object", "invalid_charset", "metadata_too_large", "duplicate_message_not_found"],
    "limited": ["ratelimited", "rate_limited", "message_limit_exceeded"],
    "unknown": ["fatal_error", "internal_error"],
    "retry": ["service_unavailable", "rollup_error", "request_timeout", "team_added_to_org"],
}


def test_every_word_is_tested():
    """The table of words in slack.c is the one above."""
    with open(os.path.join(os.path.dirname(__file__), "..", "..", "src", "sink", "chat", "slack.c")) as file:
        words = re.findall(r'^    {"(\w+)", OUTBOX_SINK_\w+, \w+},$', file.read(), re.M)
    assert sorted(words) == sorted(word for words in ERRORS.values() for word in words)


@pytest.mark.parametrize("word, outcome", [(word, outcome) for outcome, words in ERRORS.items() for word in words])
def test_error_inside_200(slack, word, outcome):
    slack.answers = [(200, {"ok": False, "error": word})]
    verdict = one(slack)
    assert (verdict["outcome"], verdict["code"]) == (outcome, "slack_" + word)
    assert verdict["scope"] == {"blocked": "sink", "limited": "recipient"}.get(outcome, "message")
    assert word in verdict["text"] and len(slack.requests) == 1


@pytest.mark.parametrize("channel, outcome, code", [
    ("C9", "terminal", "slack_channel_not_found"), ("C3", "blocked", "slack_not_in_channel"),
    ("C4", "blocked", "slack_is_archived")])
def test_wrong_channel_of_a_message_is_its_own_matter(slack, channel, outcome, code):
    verdict = one(slack, message(recipient=channel))
    assert (verdict["outcome"], verdict["code"], verdict["scope"]) == (outcome, code, "recipient")
    verdict = one(slack, channel=channel)
    assert (verdict["outcome"], verdict["code"], verdict["scope"]) == ("blocked", code, "sink")


def test_unlisted_error_is_a_retry(slack):
    slack.answers = [(200, {"ok": False, "error": "brand_new"})]
    verdict = one(slack)
    assert (verdict["outcome"], verdict["code"]) == ("retry", "slack_error") and "brand_new" in verdict["text"]


def test_error_says_more(slack):
    slack.answers = [(200, {"ok": False, "error": "missing_scope", "needed": "chat:write"})]
    assert "missing_scope: chat:write" in one(slack)["text"]


@pytest.mark.parametrize("answer", [(200, "<html>maintenance</html>"), (200, {"ok": True}), (200, []), (204, "")])
def test_200_without_proof_is_unknown(slack, answer):
    slack.answers = [answer]
    verdict = one(slack)
    assert (verdict["outcome"], verdict["code"]) == ("unknown", "slack_unclear")
    assert "expected" in verdict["text"]


@pytest.mark.parametrize("code", [500, 502, 503, 504])
def test_server_error_is_a_retry(slack, code):
    slack.answers = [(code, {"ok": False, "error": "service_unavailable"})]
    verdict = one(slack)
    assert (verdict["outcome"], verdict["code"], verdict["unreachable"]) == ("retry", "http_%d" % code, code != 500)


@pytest.mark.parametrize("code", [500, 503])
@pytest.mark.parametrize("word", ["fatal_error", "internal_error"])
@pytest.mark.parametrize("by", [one, hooked])
def test_server_error_that_may_have_posted_is_unknown(slack, by, word, code):
    """Slack says of these that part of it may have been done, whatever the status."""
    slack.answers = [(code, word if by is hooked else {"ok": False, "error": word})]
    verdict = by(slack)
    assert (verdict["outcome"], verdict["code"]) == ("unknown", "slack_" + word)


# ---- limits

def test_too_many_requests(slack):
    slack.answers = [(429, {"ok": False, "error": "ratelimited"}, {"Retry-After": "30"})]
    verdict = one(slack)
    assert (verdict["outcome"], verdict["code"], verdict["scope"], verdict["not_before_ms"]) == (
        "limited", "slack_ratelimited", "recipient", 30000)


def test_limit_inside_200(slack):
    """Its Retry-After counts as that of a 429 does."""
    slack.answers = [(200, {"ok": False, "error": "ratelimited"}, {"Retry-After": "30"})]
    verdict = one(slack)
    assert (verdict["outcome"], verdict["code"], verdict["not_before_ms"]) == ("limited", "slack_ratelimited", 30000)


def test_retry_after_is_bounded(slack):
    slack.answers = [(429, {}, {"Retry-After": "999999"})]
    assert one(slack, retry_after_max="1m")["not_before_ms"] == 60000


def test_limited_channel_is_left_alone_and_others_go_on(slack):
    slack.answers = [(429, {"ok": False, "error": "ratelimited"}, {"Retry-After": "30"})]
    first, second, third = drive("slack", slack.options(pace="0s"), [
        message(recipient="C1"), {"wait": True}, message(recipient="C1"), {"wait": True}, message(recipient="C2")])
    assert (second["outcome"], second["code"], second["scope"]) == ("not_sent", "slack_paced", "recipient")
    assert 29000 < second["not_before_ms"] <= 30000
    assert (first["outcome"], third["outcome"], len(slack.requests)) == ("limited", "accepted", 2)


def test_second_limited_channel_holds_all(slack):
    slack.answers = [(429, {}, {"Retry-After": "30"})] * 2
    script = [message(recipient="C1"), {"wait": True}, message(recipient="C2")]
    assert [v["scope"] for v in drive("slack", slack.options(), script)] == ["recipient", "sink"]


def test_one_message_a_second_for_each_channel(slack):
    slack.spacing = 0.9
    verdicts = drive("slack", slack.options(hold="0s"), [message(recipient=name) for name in ("C1", "C1", "C1", "C2")])
    by_handle = {v["handle"]: v for v in verdicts}
    assert [by_handle[n]["outcome"] for n in (1, 2, 3, 4)] == ["accepted", "not_sent", "not_sent", "accepted"]
    assert 900 < by_handle[2]["not_before_ms"] <= 1000 < 1900 < by_handle[3]["not_before_ms"] <= 2000


# ---- webhooks

def test_webhook(slack):
    verdict = hooked(slack, message("a & b", recipient="C2"))
    assert (verdict["outcome"], verdict["reference"]) == ("accepted", None)
    assert slack.channels["C1"].posts == [{"text": "a &amp; b", "mrkdwn": False}]


@pytest.mark.parametrize("status, word, outcome", [
    (400, "invalid_payload", "terminal"), (400, "no_text", "terminal"), (403, "action_prohibited", "blocked"),
    (404, "channel_not_found", "blocked"), (410, "channel_is_archived", "blocked"), (500, "rollup_error", "retry"),
    (404, "no_service", "blocked"), (404, "no_team", "blocked"), (403, "invalid_token", "blocked"),
    (400, "invalid_token", "blocked")])
def test_webhook_errors(slack, status, word, outcome):
    slack.answers = [(status, word)]
    verdict = hooked(slack)
    assert (verdict["outcome"], verdict["code"]) == (outcome, "slack_" + word)
    assert verdict["scope"] == ("sink" if outcome == "blocked" else "message")


@pytest.mark.parametrize("status, outcome", [(400, "terminal"), (403, "blocked"), (404, "blocked"), (410, "blocked"),
                                             (500, "retry"), (503, "retry"), (302, "terminal")])
def test_webhook_status_decides_without_a_word(slack, status, outcome):
    slack.answers = [(status, "<html>what?</html>")]
    assert hooked(slack)["outcome"] == outcome


def test_webhook_limit_holds_the_sink(slack):
    slack.answers = [(429, "rate_limited", {"Retry-After": "3"})]
    verdict = hooked(slack)
    assert (verdict["outcome"], verdict["scope"], verdict["not_before_ms"]) == ("limited", "sink", 3000)


def test_webhook_200_without_ok_is_unknown(slack):
    slack.answers = [(200, "<html>welcome to the proxy</html>")]
    verdict = hooked(slack)
    assert verdict["outcome"] == "unknown" and "expected the word ok" in verdict["text"]


def test_probe_of_a_webhook_connects_and_sends_nothing(slack):
    verdict, = drive("slack", slack.webhook_options(), [{"probe": True}])
    assert (verdict["outcome"], slack.requests, slack.connections) == ("accepted", [], 1)
    assert "reachable" in verdict["text"] and "only sending a message can tell" in verdict["text"]


@pytest.mark.parametrize("webhook, code, outcome", [
    ("https://hooks.nowhere.invalid/services/a", "http_resolve", "retry"), ("http://127.0.0.1:1/x", "http_connect", "retry")])
def test_probe_of_a_webhook_that_is_nowhere(slack, webhook, code, outcome):
    verdict, = drive("slack", slack.webhook_options(webhook=webhook), [{"probe": True}], deadline=20)
    assert (verdict["outcome"], verdict["code"], verdict["unreachable"]) == (outcome, code, True)


def test_probe_of_a_webhook_shakes_hands(slack, tmp_path):
    options = slack.webhook_options(**{"tls.ca": certificate(tmp_path)[0]})
    verdict, = drive("slack", options, [{"probe": True}])
    assert (verdict["outcome"], verdict["code"], slack.requests) == ("blocked", "http_tls_certificate", [])


# ---- configuration

@pytest.mark.parametrize("options, text", [
    ({}, "token or webhook"), ({"token": "xoxb-1", "webhook": "https://hooks.slack.com/services/x"}, "not both"),
    ({"token": "xoxb 1"}, "token has invalid characters"), ({"webhook": "ftp://x"}, "neither http nor https"),
    ({"token": "x", "channel": "a b"}, "recipient"), ({"token": "x", "template": "{{"}, "never closed"),
    ({"token": "x", "template": "a", "raw": True}, "exclude each other")])
def test_wrong_options_are_refused(options, text):
    with pytest.raises(OpenError) as refusal:
        drive("slack", options, [])
    assert text in str(refusal.value)


def test_probe_sees_a_wrong_token(slack):
    verdict, = drive("slack", slack.options(token="xoxb-another"), [{"probe": True}])
    assert (verdict["outcome"], verdict["code"]) == ("blocked", "slack_invalid_auth")
    assert [request.path for request in slack.requests] == ["/api/auth.test"]
