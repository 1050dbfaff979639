"""What a mail says and looks like: payload, templates, MIME, attachments; what is refused before anything is sent; and
a thousand mails over few connections. Proves: Y2, Y7, V5, V16, S13."""
import email.header
import email.utils
import os
import re
import time

import pytest

from support.mailserver import MailServer, text_of
from support.sinkdrive import Drive, drive, needs_kind

pytestmark = needs_kind("smtp")

ID = "018bcfe5-6800-7abc-8def-0123456789ab"


@pytest.fixture
def server():
    with MailServer() as server:
        yield server


def message(payload=None, **more):
    payload = {"subject": "Hello", "text": "Welcome"} if payload is None else payload
    return {"topic": "mail.welcome", "id": ID, "recipient": "zoe@example.com", "payload": payload, **more}


def mail_of(server, msg, **options):
    verdict, = drive("smtp", server.options(**options), [msg])
    assert verdict["outcome"] == "accepted", verdict
    mail = server.mails[-1]
    assert all(len(line) <= 76 or line.startswith(b"To: ") for line in mail.data.split(b"\r\n")), mail.data
    assert b"\n" not in mail.data.replace(b"\r\n", b"") and b"\r" not in mail.data.replace(b"\r\n", b"")
    assert mail.data.isascii()
    return mail


def refusal_of(server, msg, **options):
    verdict, = drive("smtp", server.options(**options), [msg])
    assert (verdict["outcome"], server.connections) == ("terminal", 0)
    return verdict["code"], verdict["text"]


# ---- the head


def test_head(server):
    mail = mail_of(server, message(created_at_us=1700000000_000000, correlation_id="order-42"))
    assert mail.header("From") == "Shop <shop@example.org>"
    assert mail.header("To") == "zoe@example.com"
    assert mail.header("Subject") == "Hello"
    assert mail.message["Date"] == "Tue, 14 Nov 2023 22:13:20 +0000"
    assert mail.header("Message-ID") == "<%s@example.org>" % ID
    assert mail.header("X-Outbox-Id") == ID
    assert mail.header("X-Outbox-Topic") == "mail.welcome"
    assert mail.header("X-Outbox-Correlation-Id") == "order-42"
    assert mail.header("MIME-Version") == "1.0"
    assert mail.text() == "Welcome"


def test_same_bytes_at_every_attempt(server):
    """A receiver that keeps Message-IDs can tell a mail that came twice."""
    for attempt in (1, 2):
        mail_of(server, message(created_at_us=1700000000_000000, attempt=attempt))
    assert server.mails[0].data == server.mails[1].data


@pytest.mark.parametrize("subject", [
    "Grüße aus Köln", "日本語の件名" * 20, "🚀" * 60, "plain " * 40 + "end", "=?UTF-8?Q?forged?=", " spaces ", "",
    "x" * 1200, "a  b   c", "tab and \"quotes\" \\ , ; : <>"])
def test_subject(server, subject):
    mail = mail_of(server, message({"subject": subject, "text": "t"}))
    raw = re.search(rb"^Subject: ?(.*?)\r\n(?![ \t])", mail.data, re.MULTILINE | re.DOTALL).group(1)
    unfolded = raw.decode().replace("\r\n", "")
    assert str(email.header.make_header(email.header.decode_header(unfolded))) == subject
    for word in unfolded.split():
        if word.startswith("=?"):  # every encoded word stands alone, never cut within a character
            assert len(word) <= 75
            email.header.decode_header(word)[0][0].decode("utf-8")


@pytest.mark.parametrize("sender, name", [
    ("shop@example.org", ""), ("Café Zoë <shop@example.org>", "Café Zoë"),
    ('"Shop, Ltd." <shop@example.org>', "Shop, Ltd."),
    ("日本語" * 30 + " <shop@example.org>", "日本語" * 30)])
def test_sender(server, sender, name):
    mail = mail_of(server, message(), **{"from": sender})
    raw = re.search(rb"^From: (.*?)\r\n(?![ \t])", mail.data, re.MULTILINE | re.DOTALL).group(1)
    said, address = email.utils.parseaddr(raw.decode().replace("\r\n", ""))
    assert (str(email.header.make_header(email.header.decode_header(said))), address) == (name, "shop@example.org")


def test_addresses_from_the_configuration(server):
    mail = mail_of(server, message(), envelope_from="bounce@example.net", reply_to="help@example.org",
                   domain="id.example")
    assert mail.sender == "bounce@example.net"
    assert (mail.header("Reply-To"), mail.header("Message-ID")) == ("help@example.org", "<%s@id.example>" % ID)
    own = message({"subject": "s", "text": "t", "reply_to": "you@example.org"})
    mail = mail_of(server, own, reply_to="help@example.org")
    assert mail.header("Reply-To") == "you@example.org"


def test_recipient_of_the_message_or_of_the_sink(server):
    """V16"""
    assert mail_of(server, message(), to="all@example.org").recipients == ["zoe@example.com"]
    assert mail_of(server, message(recipient=None), to="all@example.org").recipients == ["all@example.org"]


def test_headers_of_the_configuration_and_of_the_message(server):
    own = {"List-Unsubscribe": "<https://example.org/u?" + "a" * 60 + ">", "Bcc": "spy@example.net", "X-Other": "no"}
    verdict, = drive("smtp", server.options(pass_headers="List-Unsubscribe", **{"headers.X-Team": "rot-grün"}),
                     [message(headers=own)])
    assert verdict["outcome"] == "accepted"
    mail = server.mails[-1]
    assert mail.header("List-Unsubscribe") == own["List-Unsubscribe"]
    assert (mail.header("X-Team"), mail.header("Bcc"), mail.header("X-Other")) == ("rot-grün", None, None)
    assert mail.recipients == ["zoe@example.com"]


# ---- the bodies

TEXT = ("Straße & Öl\n\n.\n..two dots\n.leading\ntrailing space \ntab\t\nequals = sign\n" + "long " * 300 +
        "\r\ncrlf\rlone")


def test_text_and_html(server):
    mail = mail_of(server, message({"subject": "s", "text": TEXT, "html": "<p>" + "ü" * 500 + "</p>"}))
    assert mail.message.get_content_type() == "multipart/alternative"
    plain, html = mail.message.iter_parts()
    assert [part.get_content_type() for part in (plain, html)] == ["text/plain", "text/html"]  # the better one last
    assert text_of(plain) == TEXT.replace("\r\n", "\n")
    assert text_of(html) == "<p>" + "ü" * 500 + "</p>"


def test_html_alone(server):
    mail = mail_of(server, message({"subject": "s", "html": "<p>hi</p>"}))
    assert (mail.message.get_content_type(), mail.text("html")) == ("text/html", "<p>hi</p>")


def test_empty_text(server):
    assert mail_of(server, message({"subject": "s", "text": ""})).text() == ""


def test_plain_payload(server):
    msg = message(payload_text="Just text, Straße", content_type="text/plain; charset=utf-8")
    del msg["payload"]
    assert mail_of(server, msg, subject="Note about {{@topic}}").text() == "Just text, Straße"
    assert server.mails[-1].header("Subject") == "Note about mail.welcome"


def test_templates(server):
    """V5: the payload has facts, the configuration makes a mail of them."""
    payload = {"customer": {"name": "Zoë <b>&"}, "order": {"id": 42, "lines": [{"article": "pen"}]}}
    mail = mail_of(server, message(payload), subject="Order {{order.id}} for {{customer.name}}",
                   text="Dear {{customer.name}},\nyour {{order.lines.0.article}}. {{note|Bye}}.",
                   html="<p>Dear {{customer.name}}</p>")
    assert mail.header("Subject") == "Order 42 for Zoë <b>&"
    assert mail.text() == "Dear Zoë <b>&,\nyour pen. Bye."
    assert mail.text("html") == "<p>Dear Zoë &lt;b&gt;&amp;</p>"


# ---- attachments


@pytest.fixture
def folder(tmp_path):
    files = tmp_path / "files"
    (files / "2024").mkdir(parents=True)
    (files / "2024" / "invoice.pdf").write_bytes(bytes(range(256)) * 40)
    (files / "leer.txt").write_bytes(b"")
    (tmp_path / "secret").write_text("secret")
    (files / "link").symlink_to(tmp_path / "secret")
    (files / "linked").symlink_to(tmp_path)
    os.mkfifo(files / "pipe")
    return files


def with_files(*attachments):
    return message({"subject": "s", "text": "t", "html": "<p>t</p>", "attachments": list(attachments)})


def test_attachments(server, folder):
    mail = mail_of(server, with_files({"path": "2024/invoice.pdf", "type": "application/pdf"},
                                      {"path": "leer.txt", "name": "Überaus \"langer\" Name " * 8 + ".txt"}),
                   attachments_dir=folder)
    assert mail.message.get_content_type() == "multipart/mixed"
    assert mail.text() == "t" and mail.text("html") == "<p>t</p>"
    one, two = mail.message.iter_attachments()
    assert (one.get_filename(), one.get_content_type()) == ("invoice.pdf", "application/pdf")
    assert one.get_content() == bytes(range(256)) * 40
    assert (two.get_filename(), two.get_content()) == ("Überaus \"langer\" Name " * 8 + ".txt", b"")
    assert two.get_content_type() == "application/octet-stream"


@pytest.mark.parametrize("path", ["../secret", "2024/../../secret", "/etc/passwd", "", ".", "2024//invoice.pdf",
                                  "2024/", "./leer.txt"])
def test_paths_never_leave_the_folder(server, folder, path):
    assert refusal_of(server, with_files({"path": path}), attachments_dir=folder)[0] == "smtp_attachment_refused"


@pytest.mark.parametrize("path, code", [
    ("link", "smtp_attachment_refused"), ("linked/secret", "smtp_attachment_missing"),
    ("pipe", "smtp_attachment_refused"), ("2024", "smtp_attachment_refused")])
def test_links_and_other_things_are_not_files(server, folder, path, code):
    assert refusal_of(server, with_files({"path": path}), attachments_dir=folder)[0] == code


def test_file_that_is_not_there_may_come(server, folder):
    verdict, = drive("smtp", server.options(attachments_dir=folder), [with_files({"path": "2024/later.pdf"})])
    assert (verdict["outcome"], verdict["code"], verdict["unreachable"]) == ("retry", "smtp_attachment_missing", False)
    assert server.connections == 0


def test_files_have_a_limit_together(server, folder):
    both = with_files({"path": "2024/invoice.pdf"}, {"path": "2024/invoice.pdf"})
    assert mail_of(server, both, attachments_dir=folder, attachments_max=20480)
    with MailServer() as other:
        assert refusal_of(other, both, attachments_dir=folder, attachments_max=20479)[0] == "smtp_attachment_too_large"


@pytest.mark.parametrize("attachment", [
    {"path": "leer.txt", "type": "text/plain\r\nX: y"}, {"path": "leer.txt", "name": "a\nb"},
    {"path": "leer.txt", "type": "text"}, {"path": 1}, "leer.txt"])
def test_wrong_attachments(server, folder, attachment):
    assert refusal_of(server, with_files(attachment), attachments_dir=folder)[0] == "smtp_attachment_refused"


def test_no_folder_no_attachments(server):
    assert refusal_of(server, with_files({"path": "leer.txt"}))[0] == "smtp_attachment_refused"


# ---- what is refused


@pytest.mark.parametrize("recipient", [
    "zoe", "zoe@", "@example.com", "a@b@example.com", "zoe@example.com\r\nRCPT TO:<spy@example.net>",
    "zoe@example.com>", "<zoe@example.com>", "Zoe <zoe@example.com>", "zoe@example.com, spy@example.net",
    "zoe @example.com", "zoë@example.com", "zoe@exämple.com", "\"zoe\"@example.com", "zoe@-example.com",
    "zoe@example..com", ".zoe@example.com", "zo..e@example.com", "a" * 65 + "@example.com",
    "a@" + "b" * 63 + ".example" * 30, "zoe@example.com NOTIFY=NEVER", "zoe@exa_mple.com"])
def test_recipients_that_are_no_address(server, recipient):
    """Nothing of a message gets into the envelope but one plain address."""
    assert refusal_of(server, message(recipient=recipient))[0] == "smtp_recipient_invalid"


@pytest.mark.parametrize("recipient", ["a@b", "o'neil+tag@sub.example.com", "x_y-z@192-0-2-1.example", "a@[192.0.2.1]",
                                       "a" * 64 + "@example.com"])
def test_recipients_that_are(server, recipient):
    assert mail_of(server, message(recipient=recipient)).recipients == [recipient]


def test_no_recipient(server):
    assert refusal_of(server, message(recipient=None))[0] == "smtp_recipient_missing"


@pytest.mark.parametrize("payload", [
    {"subject": "a\r\nBcc: spy@example.net", "text": "t"}, {"subject": "a\nb", "text": "t"},
    {"subject": "a\rb", "text": "t"},
    {"subject": "a\x07b", "text": "t"}, {"subject": "s", "text": "t", "reply_to": "a@b.example\r\nBcc: x@y.example"},
    {"subject": "s", "text": "t", "reply_to": "nobody"}])
def test_no_header_can_be_smuggled_in(server, payload):
    assert refusal_of(server, message(payload))[0] == "smtp_header_invalid"


def test_template_values_cannot_smuggle_either(server):
    msg = message({"name": "x\r\nBcc: spy@example.net"})
    assert refusal_of(server, msg, subject="Hi {{name}}", text="t")[0] == "smtp_header_invalid"


@pytest.mark.parametrize("payload, code, word", [
    ({"text": "t"}, "smtp_payload_invalid", "subject"), ({"subject": "s"}, "smtp_payload_invalid", "text or html"),
    ({"subject": 1, "text": "t"}, "smtp_payload_invalid", "subject"), ([1], "smtp_payload_invalid", "subject"),
    ({"subject": "s", "text": {"a": 1}}, "smtp_payload_invalid", "text of the payload"),
    (5, "smtp_payload_invalid", "subject")])
def test_payload_that_is_no_mail(server, payload, code, word):
    found, text = refusal_of(server, message(payload))
    assert found == code and word in text and "not JSON" not in text


@pytest.mark.parametrize("more, options", [
    ({}, {}), ({"content_type": "application/json"}, {}), ({}, {"subject": "s"}), ({}, {"subject": "{{a}}", "text": "t"}),
    ({}, {"text": "t"})])
def test_payload_that_is_no_json(server, more, options):
    msg = message(payload_text="{'subject': 'Hello'", **more)
    del msg["payload"]
    code, text = refusal_of(server, msg, **options)
    assert code in ("smtp_payload_invalid", "smtp_template_field")
    assert "payload is not JSON" in text and "text/plain" in text


@pytest.mark.parametrize("words", ["Welcome", "42"])
def test_plain_text_without_a_subject(server, words):
    msg = message(payload_text=words, content_type="text/plain")
    del msg["payload"]
    code, text = refusal_of(server, msg)
    assert code == "smtp_payload_invalid" and "template `subject`" in text and "not JSON" not in text


@pytest.mark.parametrize("value", ["x" * 5000, "x" * 930 + " " + "y" * 990, "a" + " " * 3000 + "b", "ü" * 1000],
                         ids=["word", "words", "spaces", "umlauts"])
def test_lines_have_an_end(server, value):
    """RFC 5321: no line is longer than 998, whatever a header of the message says."""
    verdict, = drive("smtp", server.options(pass_headers="X-Long", **{"headers.X-Fixed": value}),
                     [message({"subject": value, "text": value, "html": value}, headers={"X-Long": value})])
    assert verdict["outcome"] == "accepted"
    assert max(map(len, server.mails[-1].data.split(b"\r\n"))) <= 998
    assert (server.mails[-1].header("X-Long"), server.mails[-1].text()) == (value, value)


def test_missing_field_of_a_template_is_named(server):
    code, text = refusal_of(server, message({"a": 1}), subject="{{order.id}}", text="t")
    assert code == "smtp_template_field" and "{{order.id}}" in text


# ---- many


def timed(count, **more):
    with MailServer() as server:
        with Drive("smtp", server.options(**more), deadline=60) as sink:
            begin = time.monotonic()
            assert sink.relay([message(recipient="zoe%d@example.com" % n) for n in range(count)]) == {"accepted"}
            seconds = time.monotonic() - begin
        wanted = sorted(["zoe%d@example.com" % n] for n in range(count))
        assert sorted(mail.recipients for mail in server.mails) == wanted
        return count / seconds, server.connections, server.most_open


def test_thousand_mails_over_few_connections():
    """Y7. The rates are only told: this server is slow in all it does, so that a busy machine decides."""
    cap = 3
    rate, connections, at_once = timed(1000, connections=cap)
    assert connections <= cap and at_once <= cap
    other, connections_of_other, at_once = timed(1000, connections=cap, messages_per_connection=1)
    assert connections_of_other == 1000 and at_once <= cap + 1  # one may be closing at the server's end
    print("\n1,000 mails: %.0f/s over %d connections; %.0f/s with a connection for each" % (rate, connections, other))


def test_few_mails_need_few_connections(server):
    with Drive("smtp", server.options(connections=16)) as sink:
        for _ in range(20):
            sink.send(message())
            assert sink.verdict()["outcome"] == "accepted"
    assert server.connections == 1
