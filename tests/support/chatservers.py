"""Slack, Telegram and WhatsApp on loopback, over TLS: as much of their documented interfaces as a sender meets, with the
errors and limits they are documented to have.

    with SlackServer(tls) as slack:                     # tls: of authority()
        drive("slack", {**slack.options(), "channel": "C1"}, [{"topic": "a", "payload": {"text": "hello"}}])
        assert slack.channels["C1"].posts[0]["text"] == "hello"

`answers` holds scripted answers that come before the server's own: (status, document or text, headers), or a behaviour
of support.receiver. With OUTBOX_TEST_SLACK_TOKEN and the like the tests that can run against the real services do.
"""
import json
import subprocess
import time

from support.receiver import Receiver, status, tls_context


def authority(folder):
    """An authority and a certificate of its for 127.0.0.1; (path of the authority, context for a server)."""
    ca, ca_key, cert, key, request, more = (str(folder / name) for name in (
        "ca.pem", "ca.key", "server.pem", "server.key", "server.csr", "server.cnf"))
    with open(more, "w") as file:
        file.write("subjectAltName=IP:127.0.0.1\nbasicConstraints=CA:FALSE\n")
    curve = ["-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1", "-nodes"]
    for command in (
            ["req", "-x509", *curve, "-keyout", ca_key, "-out", ca, "-days", "2", "-subj", "/CN=Outbox Test Authority"],
            ["req", *curve, "-keyout", key, "-out", request, "-subj", "/CN=127.0.0.1"],
            ["x509", "-req", "-in", request, "-CA", ca, "-CAkey", ca_key, "-CAcreateserial", "-days", "2", "-extfile",
             more, "-out", cert]):
        subprocess.run(["openssl", *command], check=True, capture_output=True)
    return ca, tls_context(cert, key)


class ChatServer(Receiver):
    def __init__(self, tls, port=0):
        self.ca, context = tls
        self.answers = []
        self.spacing = 0  # seconds that must lie between two messages to one recipient
        self.last = {}
        super().__init__(self._behave, tls=context, port=port)

    def close(self):
        if not self.stopping.is_set():
            super().close()

    def options(self, **more):
        return {"url": self.url(self.base), "allow": "127.0.0.0/8", "tls.ca": self.ca, **self.credentials, **more}

    def _behave(self, request, sock):
        answer = self.answers.pop(0) if self.answers else self.serve(request)
        if callable(answer):
            return answer(request, sock)
        code, body, headers = (*answer, {})[:3]
        data = body if isinstance(body, str) else json.dumps(body)
        kind = "text/html" if isinstance(body, str) else "application/json"
        return status(code, {"Content-Type": kind, **headers}, data.encode())(request, sock)

    def too_early(self, recipient):
        now = time.monotonic()
        early = now - self.last.get(recipient, -1e9) < self.spacing
        if not early:
            self.last[recipient] = now
        return early

    def sent(self):
        """The documents that came, as objects."""
        return [json.loads(request.body) for request in self.requests if request.method == "POST"]


class Channel:
    def __init__(self, member=True, archived=False):
        self.member, self.archived, self.posts = member, archived, []


class SlackServer(ChatServer):
    base = "/api"
    token = "xoxb-0123-SECRETSECRET"
    hook = "/services/T0001/B0002/HOOKSECRETHOOK"
    credentials = {"token": token}

    def __init__(self, tls, port=0):
        self.channels = {"C1": Channel(), "C2": Channel(), "C3": Channel(member=False), "C4": Channel(archived=True)}
        super().__init__(tls, port)

    def webhook_options(self, **more):
        return {"webhook": self.url(self.hook), "allow": "127.0.0.0/8", "tls.ca": self.ca, **more}

    def serve(self, request):
        if request.path.startswith("/services/"):
            return self.serve_hook(request)
        given = request.header("Authorization")
        if not given:
            return 200, {"ok": False, "error": "not_authed"}
        if given != "Bearer " + self.token:
            return 200, {"ok": False, "error": "invalid_auth"}
        if request.path == "/api/auth.test":
            return 200, {"ok": True, "url": "https://shop.slack.com/", "team": "shop", "user": "bot", "team_id": "T1"}
        if request.path != "/api/chat.postMessage" or request.method != "POST":
            return 200, {"ok": False, "error": "unknown_method"}
        if request.header("Content-Type") != "application/json; charset=utf-8":
            return 200, {"ok": False, "error": "invalid_form_data"}
        return self.post(json.loads(request.body))

    def post(self, body):
        channel = self.channels.get(body.get("channel"))
        error = (not channel and "channel_not_found" or channel.archived and "is_archived"
                 or not channel.member and "not_in_channel" or self.wrong(body))
        if error:
            return 200, {"ok": False, "error": error}
        if self.too_early(body["channel"]):
            return 429, {"ok": False, "error": "ratelimited"}, {"Retry-After": "1"}
        channel.posts.append(body)
        ts = "1700000000.%06d" % sum(len(c.posts) for c in self.channels.values())
        return 200, {"ok": True, "channel": body["channel"], "ts": ts, "message": {"type": "message", "text": body.get("text")}}

    @staticmethod
    def wrong(body):
        if not body.get("text") and not body.get("blocks"):
            return "no_text"
        if len(body.get("text", "")) > 40000:
            return "msg_too_long"
        return "invalid_blocks" if len(body.get("blocks", [])) > 50 else None

    def serve_hook(self, request):
        if request.path != self.hook:
            return 404, "no_service"
        body = json.loads(request.body)
        if self.wrong(body):
            return 400, self.wrong(body)
        if self.channels["C1"].archived:
            return 410, "channel_is_archived"
        if self.too_early("C1"):
            return 429, "rate_limited", {"Retry-After": "1"}
        self.channels["C1"].posts.append(body)
        return 200, "ok"


class TelegramServer(ChatServer):
    base = ""
    token = "123456789:AAsecretSECRETsecret_secret-secret"
    credentials = {"token": token}

    def __init__(self, tls, port=0):
        self.chats = {42: [], 43: [], -100200300: [], "@news": []}
        self.upgraded = {-77: -100200300}  # groups that became supergroups
        self.refused = {66: "bot was blocked by the user", -88: "bot was kicked from the group chat"}
        self.number = 0
        super().__init__(tls, port)

    @staticmethod
    def error(code, text, headers=None, **parameters):
        more = {"parameters": parameters} if parameters else {}
        return code, {"ok": False, "error_code": code, "description": text, **more}, headers or {}

    def serve(self, request):
        bot, _, method = request.path[1:].partition("/")
        if not bot.startswith("bot") or not method:
            return self.error(404, "Not Found")
        if bot != "bot" + self.token:
            return self.error(401, "Unauthorized")
        if method == "getMe":
            return 200, {"ok": True, "result": {"id": 123456789, "is_bot": True, "first_name": "Shop"}}
        if method.startswith("getChat?chat_id="):
            chat = method.partition("=")[2]
            chat = chat if chat.startswith("@") else int(chat)
            return self.refusal(chat) or (200, {"ok": True, "result": {"id": chat, "type": "group"}})
        return self.send(json.loads(request.body)) if method == "sendMessage" else self.error(404, "Not Found")

    def refusal(self, chat):
        if chat in self.upgraded:
            return self.error(400, "Bad Request: group chat was upgraded to a supergroup chat",
                              migrate_to_chat_id=self.upgraded[chat])
        if chat in self.refused:
            return self.error(403, "Forbidden: " + self.refused[chat])
        return None if chat in self.chats else self.error(400, "Bad Request: chat not found")

    def send(self, body):
        chat, text = body.get("chat_id"), body.get("text")
        if not text:
            return self.error(400, "Bad Request: message text is empty")
        if refusal := self.refusal(chat):
            return refusal
        if len(text) > 4096 and "parse_mode" not in body:
            return self.error(400, "Bad Request: message is too long")
        if body.get("parse_mode") == "HTML" and text.count("<") % 2:
            return self.error(400, "Bad Request: can't parse entities: Can't find end tag")
        if self.too_early(chat):
            return self.error(429, "Too Many Requests: retry after 1", {"Retry-After": "1"}, retry_after=1)
        self.chats[chat].append(body)
        self.number += 1
        return 200, {"ok": True, "result": {"message_id": self.number, "chat": {"id": chat}, "text": text}}


class WhatsAppServer(ChatServer):
    base = ""
    token = "EAAGsecretSECRETsecret"
    number_id = "106540352242922"
    credentials = {"token": token, "phone_number_id": number_id}

    def __init__(self, tls, port=0):
        self.posts = []
        super().__init__(tls, port)

    @staticmethod
    def error(code, text="(#%d) went wrong", details="more about it", http=400):
        text = text % code if "%" in text else text
        return http, {"error": {"message": text, "type": "OAuthException", "code": code, "fbtrace_id": "Az8or2yhqkZfEZ-",
                                "error_data": {"messaging_product": "whatsapp", "details": details}}}

    def serve(self, request):
        if request.header("Authorization") != "Bearer " + self.token:
            return self.error(190, "Error validating access token", http=401)
        if request.path == "/v23.0/%s?fields=id" % self.number_id and request.method == "GET":
            return 200, {"id": self.number_id}
        if request.path != "/v23.0/%s/messages" % self.number_id:
            return self.error(100, "Unsupported post request", http=400)
        body = json.loads(request.body)
        kind = body.get("type", "text")
        if body.get("messaging_product") != "whatsapp" or not body.get("to", "").isdigit():
            return self.error(100, "(#100) Invalid parameter")
        if not isinstance(body.get(kind), dict):
            return self.error(131008, "(#131008) Required parameter is missing")
        if kind == "text" and len(body["text"].get("body", "")) > 4096:
            return self.error(100, "(#100) Param text['body'] must be at most 4096 characters long.")
        if self.too_early(body["to"]):
            return self.error(131056, "(#131056) (Business Account, Consumer Account) pair rate limit hit")
        self.posts.append(body)
        return 200, {"messaging_product": "whatsapp", "contacts": [{"input": body["to"], "wa_id": body["to"]}],
                     "messages": [{"id": "wamid.%06d" % len(self.posts)}]}
