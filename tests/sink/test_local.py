"""What a sink refuses by itself it marks as its own decision: nobody was asked, so it is no sign of life for the breaker.

Proves: N5 (with tests/unit/core/test_relay.c, which shows what the mark does), N3.
"""
import pytest

from support.nginx import free_port
from support.sinkdrive import drive, has_kind, needs_sinks

pytestmark = needs_sinks

BAD_HEADER = {"topic": "t", "payload": {}, "headers": {"X-A": "a\nX-Evil: b"}}
GOOD = {"topic": "t", "payload": {"text": "a", "subject": "s"}, "recipient": "zoe@example.com"}

# kind: options where nobody listens, a message it must refuse, the code
CASES = {
    "http": ({"url": "http://127.0.0.1:%d/", "allow": "127.0.0.0/8"}, BAD_HEADER, "header_invalid"),
    "redis": ({"url": "redis://127.0.0.1:%d"}, BAD_HEADER, "header_invalid"),
    "nats": ({"servers": "nats://127.0.0.1:%d"}, BAD_HEADER, "header_invalid"),
    "amqp": ({"url": "amqp://127.0.0.1:%d"}, {**GOOD, "topic": "t" * 300}, "amqp_address"),
    "mqtt": ({"url": "mqtt://127.0.0.1:%d"}, {**GOOD, "topic": "a/#"}, "mqtt_address"),
    "kafka": ({"brokers": "127.0.0.1:%d", "delivery_timeout": "2s"}, {**GOOD, "topic": "a/b"}, "kafka_topic_name"),
    "smtp": ({"url": "smtp://127.0.0.1:%d", "from": "shop@example.org", "tls.mode": "none"}, {**GOOD, "recipient": None},
             "smtp_recipient_missing"),
    "telegram": ({"url": "http://127.0.0.1:%d", "allow": "127.0.0.0/8", "token": "1:x", "chat": "4"},
                 {**GOOD, "recipient": "zoe@example.com"}, "telegram_recipient"),
}


@pytest.mark.parametrize("kind", CASES)
def test_its_own_refusal_is_no_word_of_the_sink(kind):
    """N5"""
    if not has_kind(kind):
        pytest.skip("this build has no sink " + kind)
    options, bad, code = CASES[kind]
    good = {**GOOD, "recipient": "42"} if kind == "telegram" else GOOD
    options = {name: value % free_port() if "%d" in str(value) else value for name, value in options.items()}
    verdicts = {v["handle"]: v for v in drive(kind, options, [bad, {"wait": True}, good], deadline=30)}
    assert (verdicts[1]["outcome"], verdicts[1]["code"], verdicts[1]["local"]) == ("terminal", code, True)
    assert (verdicts[2]["outcome"], verdicts[2]["unreachable"], verdicts[2]["local"]) == ("retry", True, False)
