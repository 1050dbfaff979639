"""A receiver of webhooks or of chat messages as a process of its own, so that kill -9 ends it amid its work.

    with Outpost(tmp_path / "slack", "slack") as server:
        voyage(tmp_path, server.sink(), server.arrivals, [server.kill_and_start])

It speaks as support.receiver and support.chatservers do, and writes down the number that a message carries before it
answers: `{"n": 7}`, or `order 7` where the sink makes a text of it.
"""
import os
import re
import sys
import threading

if __name__ == "__main__":
    sys.path.insert(0, os.path.dirname(os.path.dirname(os.path.abspath(__file__))))

from support.broker import Broker  # noqa: E402
from support.chatservers import SlackServer, TelegramServer, WhatsAppServer, authority  # noqa: E402
from support.receiver import Receiver, tls_context  # noqa: E402

CHATS = {"slack": SlackServer, "telegram": TelegramServer, "whatsapp": WhatsAppServer}
# Where messages go, and the limits of the sink turned off: the servers have none either.
SETTINGS = {"slack": {"channel": "C1"}, "telegram": {"chat": "42", "overall": 0},
            "whatsapp": {"to": "491701234567", "overall": 0}}
NUMBER = re.compile(rb'(?:"n": ?|order )(\d+)')


class Outpost(Broker):
    def __init__(self, folder, kind):
        super().__init__(folder)
        self.kind = kind
        if kind in CHATS:
            authority(folder)

    def command(self):
        return [sys.executable, os.path.abspath(__file__), self.kind, str(self.port), self.folder]

    def sink(self):
        """The settings of a sink that sends here."""
        if self.kind == "http":
            return {"kind": "http", "url": "http://127.0.0.1:%d/hook" % self.port, "allow": "127.0.0.0/8"}
        server = CHATS[self.kind]
        return {"kind": self.kind, "url": "https://127.0.0.1:%d%s" % (self.port, server.base), "allow": "127.0.0.0/8",
                "tls": {"ca": self.folder + "/ca.pem"}, "template": "order {{n}}", "pace": "0s", **server.credentials,
                **SETTINGS[self.kind]}

    def arrivals(self):
        with open(self.folder + "/arrivals") as file:
            return [int(line) for line in file]


def serve(kind, port, folder):
    if kind == "http":
        server = Receiver(port=port)
    else:
        server = CHATS[kind]((None, tls_context(folder + "/server.pem", folder + "/server.key")), port)
    arrivals = os.open(folder + "/arrivals", os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o600)
    answer = server.behave

    def behave(request, sock):
        os.write(arrivals, NUMBER.search(request.body).group(1) + b"\n")
        return answer(request, sock)
    server.behave = behave
    threading.Event().wait()


if __name__ == "__main__":
    serve(sys.argv[1], int(sys.argv[2]), sys.argv[3])
