"""The telegram sink against a server that speaks what the Bot API documents. Proves: V5, V6, V16, S13.
"""
import os
import time

import pytest

from support.chatservers import TelegramServer, authority
from support.sinkdrive import Drive, OpenError, drive, needs_kind
from support.under import PATIENCE

pytestmark = needs_kind("telegram")


def message(text="hello", **more):
    return {"topic": "orders.paid", "payload": {"text": text}, **more}


@pytest.fixture(scope="module")
def tls(tmp_path_factory):
    return authority(tmp_path_factory.mktemp("tls"))


@pytest.fixture
def telegram(tls):
    with TelegramServer(tls) as server:
        yield server


def one(server, msg=None, **more):
    verdict, = drive("telegram", server.options(**{"chat": "42", **more}), [msg or message()])
    return verdict


# ---- what is sent

def test_message_arrives(telegram):
    """The same on the real service: OUTBOX_TEST_TELEGRAM_TOKEN and OUTBOX_TEST_TELEGRAM_CHAT."""
    token, chat = os.environ.get("OUTBOX_TEST_TELEGRAM_TOKEN"), os.environ.get("OUTBOX_TEST_TELEGRAM_CHAT")
    options = {"token": token, "chat": chat} if token else telegram.options(chat="42")
    probe, verdict = drive("telegram", options, [{"probe": True}, {"wait": True}, message("a < b & *c*")], deadline=30)
    assert (probe["outcome"], verdict["outcome"], verdict["code"]) == ("accepted", "accepted", None)
    assert verdict["reference"].isdigit()
    if not token:
        assert (verdict["reference"], verdict["output"]) == ("1", None)
        assert telegram.chats[42] == [{"chat_id": 42, "text": "a < b & *c*"}]


@pytest.mark.parametrize("recipient, chat", [("43", 43), ("-100200300", -100200300), ("@news", "@news")])
def test_recipient_of_the_message_wins(telegram, recipient, chat):
    assert one(telegram, message(recipient=recipient))["outcome"] == "accepted"
    assert [len(telegram.chats[chat]), len(telegram.chats[42])] == [1, 0]


@pytest.mark.parametrize("recipient", ["forty-two", "@x", "1e9", "--5", "9" * 19, "@a/b/c", "42 43"])
def test_recipient_that_can_be_none(telegram, recipient):
    verdict = one(telegram, message(recipient=recipient))
    assert (verdict["outcome"], verdict["code"], telegram.requests) == ("terminal", "telegram_recipient", [])
    assert recipient not in verdict["text"]


def test_payload_cannot_choose_the_chat(telegram):
    one(telegram, {"topic": "a", "payload": {"text": "x", "telegram": {"chat_id": 43, "disable_notification": True}}})
    one(telegram, {"topic": "a", "payload": {"text": "y", "chat_id": 43}}, raw=True)
    assert telegram.chats[42] == [{"disable_notification": True, "chat_id": 42, "text": "x"},
                                  {"text": "y", "chat_id": 42}]


@pytest.mark.parametrize("mode, template, text", [
    ("none", "*{{who}}*", "*a_b<c>.*"), ("HTML", "<b>{{who}}</b>", "<b>a_b&lt;c&gt;.</b>"),
    ("MarkdownV2", "*{{who}}*", "*a\\_b<c\\>\\.*")])
def test_values_in_a_template_are_escaped_for_the_markup(telegram, mode, template, text):
    one(telegram, {"topic": "a", "payload": {"who": "a_b<c>."}}, parse_mode=mode, template=template)
    post, = telegram.chats[42]
    assert (post["text"], post.get("parse_mode", "none")) == (text, mode)


def test_limits_are_checked_before_sending(telegram):
    verdict = one(telegram, message("ä" * 4097))
    assert (verdict["outcome"], verdict["code"]) == ("terminal", "telegram_too_long")
    verdict = one(telegram, {"topic": "a", "payload": {"n": 1}})
    assert (verdict["outcome"], verdict["code"], telegram.requests) == ("terminal", "telegram_no_text", [])
    assert one(telegram, message("ä" * 4096))["outcome"] == "accepted"
    # With markup only Telegram can count.
    assert one(telegram, message("<b>%s</b>" % ("x" * 4096)), parse_mode="HTML")["outcome"] == "accepted"


# ---- errors

def test_refusals_of_the_server(telegram):
    for msg, more, code in ((message(recipient="999"), {}, "chat not found"),
                            (message("<b"), {"parse_mode": "HTML"}, "can't parse entities")):
        verdict = one(telegram, msg, **more)
        assert (verdict["outcome"], verdict["code"], verdict["scope"]) == ("terminal", "telegram_400", "message")
        assert code in verdict["text"]


@pytest.mark.parametrize("chat", ["66", "-88"])
def test_recipient_who_wants_nothing(telegram, chat):
    verdict = one(telegram, message(recipient=chat))
    assert (verdict["outcome"], verdict["code"], verdict["scope"]) == ("terminal", "telegram_403", "recipient")
    verdict = one(telegram, chat=chat)
    assert (verdict["outcome"], verdict["code"], verdict["scope"]) == ("blocked", "telegram_403", "sink")


@pytest.mark.parametrize("status, outcome, scope, code", [
    (401, "blocked", "sink", "telegram_401"), (404, "blocked", "sink", "telegram_404"),
    (409, "retry", "message", "telegram_409"), (413, "terminal", "message", "telegram_413"),
    (500, "retry", "sink", "http_500"), (502, "retry", "sink", "http_502"),
    (501, "retry", "sink", "http_501"), (504, "retry", "sink", "http_504")])
def test_status(telegram, status, outcome, scope, code):
    telegram.answers = [telegram.error(status, "whatever it says")]
    verdict = one(telegram)
    assert (verdict["outcome"], verdict["scope"], verdict["code"]) == (outcome, scope, code)


@pytest.mark.parametrize("status", [200, 403])
def test_ok_false_counts_whatever_the_status(telegram, status):
    telegram.answers = [(status, telegram.error(403, "Forbidden: user is deactivated")[1])]
    verdict = one(telegram, message(recipient="42"))
    assert (verdict["outcome"], verdict["code"]) == ("terminal", "telegram_403")


@pytest.mark.parametrize("answer", [(200, "<html></html>"), (200, {"ok": True}), (200, {"ok": True, "result": {}}),
                                    (200, {"result": {"message_id": 5}})])
def test_200_without_proof_is_unknown(telegram, answer):
    telegram.answers = [answer]
    verdict = one(telegram)
    assert (verdict["outcome"], verdict["code"]) == ("unknown", "telegram_unclear")


# ---- limits

@pytest.mark.parametrize("headers, parameters, ms", [
    ({"Retry-After": "7"}, {"retry_after": 7}, 7000), ({}, {"retry_after": 9}, 9000), ({"Retry-After": "5"}, {}, 5000),
    ({}, {}, None), ({}, {"retry_after": 10**9}, 3600000)])
def test_too_many_requests(telegram, headers, parameters, ms):
    telegram.answers = [telegram.error(429, "Too Many Requests", headers, **parameters)]
    verdict = one(telegram)
    assert (verdict["outcome"], verdict["code"], verdict["scope"], verdict["not_before_ms"]) == (
        "limited", "telegram_429", "recipient", ms)


def test_limit_inside_200(telegram):
    telegram.answers = [(200, telegram.error(429, "Too Many Requests")[1], {"Retry-After": "5"})]
    verdict = one(telegram)
    assert (verdict["outcome"], verdict["not_before_ms"]) == ("limited", 5000)


def test_second_limited_chat_holds_all(telegram):
    telegram.answers = [telegram.error(429, "Too Many Requests", retry_after=30)] * 2
    script = [message(recipient="42"), {"wait": True}, message(recipient="43")]
    assert [v["scope"] for v in drive("telegram", telegram.options(), script)] == ["recipient", "sink"]


def paces(server, recipients, **more):
    verdicts = drive("telegram", server.options(hold="0s", overall=0, **more), [message(recipient=name) for name in recipients])
    return [v["not_before_ms"] for v in sorted(verdicts, key=lambda v: v["handle"])]


def test_pace_of_people_and_groups(telegram):
    first, second, other = paces(telegram, ["42", "42", "43"])
    slack = 100 * PATIENCE
    assert (first, other) == (None, None) and 1000 - slack < second <= 1000
    for group in ("-100200300", "@news"):
        first, second, third = paces(telegram, [group] * 3)
        assert first is None and 3000 - slack < second <= 3000 and 6000 - slack < third <= 6000


def test_pace_of_all_together(telegram):
    """No second sees more than `overall`, also the first one after a rest."""
    times = []

    def serve(request, own=telegram.serve):
        times.append(time.monotonic())
        return own(request)
    telegram.serve = serve
    telegram.chats.update({n: [] for n in range(1000, 1060)})
    verdicts = drive("telegram", telegram.options(overall=30, hold="60s"), [
        {"batch": [message(recipient=str(n)) for n in range(1000, 1060)]}], deadline=20)
    assert {v["outcome"] for v in verdicts} == {"accepted"}
    most = max(sum(at <= other < at + 1 for other in times) for at in times)
    assert most <= 30 + 6 * PATIENCE  # some are under way for longer than those after them
    assert max(times) - min(times) < 3 * PATIENCE


def test_who_is_early_for_all_is_given_back(telegram):
    verdicts = drive("telegram", telegram.options(overall=1, hold="0s"), [message(recipient="42"), message(recipient="43")])
    late, = [v for v in verdicts if v["outcome"] == "not_sent"]
    assert (late["code"], late["scope"]) == ("telegram_paced", "sink")


# ---- groups that become supergroups

def test_migration_is_followed_at_once_and_remembered(telegram):
    with Drive("telegram", telegram.options(group_pace="0s")) as sink:
        for n in range(2):
            sink.send(message("n%d" % n, recipient="-77"))
            verdict = sink.verdict()
            assert (verdict["outcome"], verdict["reference"]) == ("accepted", str(n + 1))
            assert verdict["output"] == '{"moved_to":"-100200300"}'
        sink.finish()
        assert [line.split()[0] for line in sink.log] == ["warn"] and "moved to another id" in sink.log[0]
    assert [body["chat_id"] for body in telegram.sent()] == [-77, -100200300, -100200300]
    assert [post["text"] for post in telegram.chats[-100200300]] == ["n0", "n1"]


def test_migration_in_a_circle_ends(telegram):
    telegram.upgraded = {-77: -78, -78: -77}
    verdict = one(telegram, message(recipient="-77"))
    assert (verdict["outcome"], verdict["code"], len(telegram.requests)) == ("retry", "telegram_migrated", 2)


def test_chain_of_migrations_is_learnt(telegram):
    telegram.upgraded = {-77: -78, -78: -100200300}
    script = [message(recipient="-77"), {"wait": True}, message(recipient="-77")]
    verdicts = drive("telegram", telegram.options(group_pace="0s"), script)
    assert [v["outcome"] for v in verdicts] == ["retry", "accepted"]


# ---- configuration

@pytest.mark.parametrize("options, text", [
    ({}, "token"), ({"token": "123/../456:x"}, "not a bot token"), ({"token": "123:a/b"}, "not a bot token"),
    ({"token": "123:abc", "chat": "home"}, "recipient"), ({"token": "123:abc", "url": "example"}, "URL"),
    ({"token": "123:abc", "parse_mode": "Markdown"}, "parse_mode")])
def test_wrong_options_are_refused(options, text):
    with pytest.raises(OpenError) as refusal:
        drive("telegram", options, [])
    assert text in str(refusal.value) and "abc" not in str(refusal.value)


def test_probe_sees_a_wrong_token(telegram):
    verdict, = drive("telegram", telegram.options(token="1:wrong"), [{"probe": True}])
    assert (verdict["outcome"], verdict["code"]) == ("blocked", "telegram_401")
    assert [request.path for request in telegram.requests] == ["/bot1:wrong/getMe"]


@pytest.mark.parametrize("chat, outcome, code, text", [
    ("42", "accepted", None, None), ("@news", "accepted", None, None), ("-100200300", "accepted", None, None),
    ("999", "blocked", "telegram_400", "chat not found"), ("@olds", "blocked", "telegram_400", "chat not found"),
    ("-77", "blocked", "telegram_migrated", "`chat`: -100200300"), ("-88", "blocked", "telegram_403", "kicked")])
def test_probe_sees_a_wrong_chat(telegram, chat, outcome, code, text):
    """Every message would be dead at once."""
    verdict, = drive("telegram", telegram.options(chat=chat), [{"probe": True}])
    assert (verdict["outcome"], verdict["code"]) == (outcome, code) and (text or "") in (verdict["text"] or "")
    assert outcome == "accepted" or verdict["scope"] == "sink"
    assert [(request.method, request.body) for request in telegram.requests] == [("GET", b"")]


# ---- paces of groups that moved

@pytest.mark.parametrize("second", ["-77", "-100200300"])
def test_pace_of_a_group_that_moved_is_that_of_the_new_one(telegram, second):
    """Telegram counts by the chat, whatever id a message named."""
    script = [message(recipient="-77"), {"wait": True}, message(recipient=second)]
    first, late = drive("telegram", telegram.options(hold="0s", overall=0), script)
    assert (first["outcome"], late["outcome"], late["code"]) == ("accepted", "not_sent", "telegram_paced")
    assert 3000 - 1000 * PATIENCE < late["not_before_ms"] <= 3000 and len(telegram.requests) == 2


def test_who_follows_keeps_the_pace_of_the_new_group(telegram):
    script = [message(recipient="-100200300"), {"wait": True}, message(recipient="-77"), {"wait": True},
              {"skip_ms": 3000}, message(recipient="-77")]
    verdicts = drive("telegram", telegram.options(hold="0s", overall=0), script)
    assert [v["outcome"] for v in verdicts] == ["accepted", "not_sent", "accepted"]
    assert [body["chat_id"] for body in telegram.sent()] == [-100200300, -77, -100200300]


def test_those_who_wait_follow_too(telegram):
    pace = "%dms" % (100 * PATIENCE)
    options = telegram.options(group_pace=pace, hold="%ds" % (5 * PATIENCE), overall=0)
    verdicts = drive("telegram", options, [{"batch": [message("n%d" % n, recipient="-77") for n in range(4)]}])
    assert {(v["outcome"], v["output"]) for v in verdicts} == {("accepted", '{"moved_to":"-100200300"}')}
    assert [body["chat_id"] for body in telegram.sent()] == [-77] + [-100200300] * 4
