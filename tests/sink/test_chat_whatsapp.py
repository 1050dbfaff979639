"""The whatsapp sink against a server that speaks what Meta documents of the Cloud API. Proves: V5, V6, V16, S13.
"""
import os

import pytest

from support.chatservers import WhatsAppServer, authority
from support.sinkdrive import Drive, OpenError, drive, needs_kind
from support.under import PATIENCE

pytestmark = needs_kind("whatsapp")

ID = "0190f3c8-0000-7000-8000-000000000001"
NUMBER = "491701234567"


def message(text="hello", **more):
    return {"topic": "orders.paid", "id": ID, "recipient": NUMBER, "payload": {"text": text}, **more}


@pytest.fixture(scope="module")
def tls(tmp_path_factory):
    return authority(tmp_path_factory.mktemp("tls"))


@pytest.fixture
def whatsapp(tls):
    with WhatsAppServer(tls) as server:
        yield server


def one(server, msg=None, **more):
    verdict, = drive("whatsapp", server.options(**more), [msg or message()])
    return verdict


# ---- what is sent

def test_message_arrives(whatsapp):
    """The same on the real service: OUTBOX_TEST_WHATSAPP_TOKEN, ..._PHONE_NUMBER_ID and ..._TO."""
    token, number, to = (os.environ.get("OUTBOX_TEST_WHATSAPP_" + name) for name in ("TOKEN", "PHONE_NUMBER_ID", "TO"))
    options = {"token": token, "phone_number_id": number} if token else whatsapp.options()
    script = [{"probe": True}, {"wait": True}, message(recipient=to or NUMBER)]
    probe, verdict = drive("whatsapp", options, script, deadline=30)
    assert (probe["outcome"], verdict["outcome"], verdict["code"]) == ("accepted", "accepted", None)
    assert verdict["reference"].startswith("wamid.")
    if not token:
        assert whatsapp.posts == [{"messaging_product": "whatsapp", "to": NUMBER, "type": "text", "text": {"body": "hello"},
                                   "biz_opaque_callback_data": ID}]


@pytest.mark.parametrize("written", ["+491701234567", "+49 170 123-4567", "(49) 170.1234567"])
def test_number_as_people_write_it(whatsapp, written):
    assert one(whatsapp, message(recipient=written))["outcome"] == "accepted"
    assert whatsapp.posts[0]["to"] == NUMBER


@pytest.mark.parametrize("written", ["1234", "4917x1234567", "++4917012345", "1" * 16, "@name", "4" * 500])
def test_recipient_that_can_be_none(whatsapp, written):
    verdict = one(whatsapp, message(recipient=written))
    assert (verdict["outcome"], verdict["code"], whatsapp.requests) == ("terminal", "whatsapp_recipient", [])


def test_recipient_of_the_configuration(whatsapp):
    assert one(whatsapp, message(recipient=None), to="+1 555 0100")["outcome"] == "accepted"
    assert whatsapp.posts[0]["to"] == "15550100"
    assert one(whatsapp, message(recipient=None))["code"] == "whatsapp_recipient"


def test_template_of_meta(whatsapp):
    """After 24 hours only an approved template gets through: by the payload, raw, or from the configuration."""
    template = {"name": "paid", "language": {"code": "en"}, "components": [
        {"type": "body", "parameters": [{"type": "text", "text": "A \"7\""}]}]}
    assert one(whatsapp, {**message(), "payload": {"whatsapp": {"type": "template", "template": template, "to": "1"}}})[
        "outcome"] == "accepted"
    assert one(whatsapp, {**message(), "payload": {"type": "template", "template": template}}, raw=True)[
        "outcome"] == "accepted"
    words = ('{"type": "template", "template": {"name": "paid", "language": {"code": "en"}, "components": '
             '[{"type": "body", "parameters": [{"type": "text", "text": "{{order}}"}]}]}}')
    assert one(whatsapp, {**message(), "payload": {"order": "A \"7\""}}, json_template=words)["outcome"] == "accepted"
    assert [(post["type"], post["template"], post["to"], post["messaging_product"]) for post in whatsapp.posts] == [
        ("template", template, NUMBER, "whatsapp")] * 3
    assert [post["biz_opaque_callback_data"] for post in whatsapp.posts] == [ID] * 3  # callbacks name it
    own = {"type": "template", "template": template, "biz_opaque_callback_data": "own"}
    one(whatsapp, {**message(), "payload": own}, raw=True)
    assert whatsapp.posts[3]["biz_opaque_callback_data"] == "own"


def test_limits_are_checked_before_sending(whatsapp):
    for text, code in (("ä" * 4097, "whatsapp_too_long"), ("", "whatsapp_no_text")):
        verdict = one(whatsapp, message(text))
        assert (verdict["outcome"], verdict["code"], whatsapp.requests) == ("terminal", code, [])
    assert one(whatsapp, message("ä" * 4096))["outcome"] == "accepted"


# ---- the table of codes

CODES = {
    "limited": [4, 613, 80007, 130429, 131048, 131056, 131049],
    "retry": [1, 2, 131000, 131016, 131057, 133004],
    "blocked": [0, 3, 10, 33, 190, 200, 230, 299, 368, 130497, 131005, 131031, 131042, 131045, 133010],
    "terminal": [100, 131008, 131009, 131021, 131026, 131047, 131051, 131052, 131053, 130472, 131050, 132000, 132001,
                 132005, 132007, 132012, 132015, 132016],
}
WAITS = {4: 60, 613: 60, 80007: 60, 130429: 1, 131048: 3600, 131056: 1, 131049: 86400, 131057: 60}
RECIPIENT = {131056, 130497, 131021, 131026, 131047, 130472}
MESSAGE = {131049}


@pytest.mark.parametrize("code, outcome", [(code, outcome) for outcome, codes in CODES.items() for code in codes])
def test_code(whatsapp, code, outcome):
    for http in (400, 500):  # the status does not count
        whatsapp.answers = [whatsapp.error(code, http=http)]
        verdict = one(whatsapp)
        assert (verdict["outcome"], verdict["code"]) == (outcome, "whatsapp_%d" % code)
        assert verdict["not_before_ms"] == (WAITS[code] * 1000 if code in WAITS else None)
        assert verdict["scope"] == ("recipient" if code in RECIPIENT else
                                    "sink" if outcome in ("limited", "blocked") and code not in MESSAGE
                                    else "message")
        assert "more about it" in verdict["text"]


@pytest.mark.parametrize("status, outcome", [(400, "terminal"), (401, "blocked"), (403, "blocked"), (429, "limited"),
                                             (500, "retry"), (503, "retry")])
def test_status_decides_without_a_known_code(whatsapp, status, outcome):
    for answer in (whatsapp.error(999999, http=status), (status, "<html></html>")):
        whatsapp.answers = [answer]
        verdict = one(whatsapp)
        assert (verdict["outcome"], verdict["code"]) == (outcome, "http_%d" % status)


@pytest.mark.parametrize("answer", [(200, {}), (200, {"messages": []}), (200, {"messages": [{}]}), (200, "ok")])
def test_200_without_proof_is_unknown(whatsapp, answer):
    whatsapp.answers = [answer]
    verdict = one(whatsapp)
    assert (verdict["outcome"], verdict["code"]) == ("unknown", "whatsapp_unclear")


# ---- limits

def test_retry_after_is_honoured(whatsapp):
    status, body = whatsapp.error(130429, http=429)
    whatsapp.answers = [(status, body, {"Retry-After": "20"})]
    assert one(whatsapp)["not_before_ms"] == 20000


def test_pair_limit_grows_until_a_message_is_taken(whatsapp):
    pair, waits = whatsapp.error(131056), []
    whatsapp.answers = [pair, pair]
    script = [message(), {"wait": True}, {"sleep_ms": 1010}, message(), {"wait": True}, message()]
    verdicts = drive("whatsapp", whatsapp.options(), script)
    waits = [(v["outcome"], v["not_before_ms"]) for v in verdicts]
    assert waits[:2] == [("limited", 1000), ("limited", 4000)]
    assert waits[2][0] == "not_sent" and 3900 < waits[2][1] <= 4000


def test_pair_limit_in_the_long_run(whatsapp):
    """It grows to an hour and no further, and begins anew when one was taken."""
    whatsapp.answers = [whatsapp.error(131056)] * 8
    waits = [1, 4, 16, 64, 256, 1024, 3600, 3600]
    script = [line for wait in waits for line in (message(), {"wait": True}, {"skip_ms": wait * 1000 + 1})]
    with Drive("whatsapp", whatsapp.options()) as sink:
        sink.send(*script)
        told = [sink.verdict() for _ in waits]
        assert [(v["outcome"], v["not_before_ms"]) for v in told] == [("limited", wait * 1000) for wait in waits]
        sink.send(message())
        assert sink.verdict()["outcome"] == "accepted"
        whatsapp.answers = [whatsapp.error(131056)]
        sink.send(message())
        assert sink.verdict()["not_before_ms"] == 1000


def test_marketing_that_is_spared_holds_nothing_else(whatsapp):
    """131049 is about messages of this kind: a one-time code to the same person goes at once."""
    whatsapp.answers = [whatsapp.error(131049)]
    spared, code = drive("whatsapp", whatsapp.options(), [message(), {"wait": True}, message("your code is 1234")])
    assert (spared["outcome"], spared["scope"], spared["not_before_ms"]) == ("limited", "message", 86400000)
    assert (code["outcome"], len(whatsapp.posts)) == ("accepted", 1)


def test_burst_and_pace_of_a_number(whatsapp):
    verdicts = drive("whatsapp", whatsapp.options(), [{**message(), "repeat": 47}, message(recipient="15550100")])
    sent = [v["handle"] for v in verdicts if v["outcome"] == "accepted"]
    late = {v["handle"]: v["not_before_ms"] for v in verdicts if v["outcome"] == "not_sent"}
    assert sorted(sent) == [*range(1, 46), 48] and sorted(late) == [46, 47]
    assert 5000 < late[46] <= 6000 and 11000 < late[47] <= 12000


def test_rate_of_the_sending_number(whatsapp):
    verdicts = drive("whatsapp", whatsapp.options(overall=20, hold="0s"), [
        message(recipient=str(15550100 + n)) for n in range(40)])
    late = [v for v in verdicts if v["outcome"] == "not_sent"]
    assert 40 - len(late) in range(1, 8 * PATIENCE)  # time goes on while they come
    assert {(v["code"], v["scope"]) for v in late} == {("whatsapp_paced", "sink")}


# ---- configuration

@pytest.mark.parametrize("options, text", [
    ({}, "token"), ({"token": "EAAG"}, "phone_number_id"), ({"token": "EAAG", "phone_number_id": "1/2"}, "digits"),
    ({"token": "EAAG", "phone_number_id": "12", "version": "v1/../x"}, "version"),
    ({"token": "EAAG", "phone_number_id": "12", "to": "nobody"}, "recipient")])
def test_wrong_options_are_refused(options, text):
    with pytest.raises(OpenError) as refusal:
        drive("whatsapp", options, [])
    assert text in str(refusal.value)


def test_probe(whatsapp):
    verdict, = drive("whatsapp", whatsapp.options(token="EAAGwrong"), [{"probe": True}])
    assert (verdict["outcome"], verdict["code"], whatsapp.posts) == ("blocked", "whatsapp_190", [])
