"""A private nats-server with JetStream: its own port and folder; and a small client of its protocol."""
import base64
import json
import socket

from support.broker import Broker, find_program

PROGRAM = find_program("nats-server")

CONFIG = """
listen: 127.0.0.1:%(port)d
jetstream { store_dir: "%(folder)s/js" }
%(more)s
"""


class Client:
    """Requests, one at a time."""

    def __init__(self, port, user=None, password=None):
        self.socket = socket.create_connection(("127.0.0.1", port), timeout=10)
        self.file = self.socket.makefile("rb")
        self.file.readline()
        login = {"verbose": False, "headers": True, "no_responders": True, "lang": "test", "version": "1",
                 "protocol": 1}
        if user:
            login.update(user=user, pass_=password)
            login["pass"] = login.pop("pass_")
        self.send(b"CONNECT %s\r\nSUB _INBOX.t 1\r\nPING\r\n" % json.dumps(login).encode())
        while (line := self.file.readline()) and not line.startswith(b"PONG"):
            if line.startswith(b"-ERR"):
                raise OSError(line)

    def send(self, data):
        self.socket.sendall(data)

    def request(self, subject, body=b""):
        """The answer's body, as JSON."""
        body = json.dumps(body).encode() if not isinstance(body, bytes) else body
        self.send(b"PUB %s _INBOX.t %d\r\n%s\r\n" % (subject.encode(), len(body), body))
        while (line := self.file.readline()):
            words = line.split()
            if words[0] == b"PING":
                self.send(b"PONG\r\n")
            elif words[0] == b"MSG":
                return json.loads(self.file.read(int(words[-1]) + 2))
            elif words[0] == b"HMSG":
                self.file.read(int(words[-1]) + 2)
                raise OSError("no responders")
        raise OSError("the server closed the connection")

    def close(self):
        self.file.close()
        self.socket.close()


class Nats(Broker):
    def command(self):
        with open(self.folder + "/nats.conf", "w") as file:
            file.write(CONFIG % {"port": self.port, "folder": self.folder, "more": self.settings.get("config", "")})
        return [PROGRAM, "-c", self.folder + "/nats.conf"]

    def url(self):
        return "nats://127.0.0.1:%d" % self.port

    def client(self):
        return Client(self.port, *self.settings.get("login", ()))

    def is_ready(self):
        client = self.client()
        try:
            client.request("$JS.API.INFO")
            return True
        finally:
            client.close()

    def request(self, subject, body=b""):
        client = self.client()
        try:
            return client.request(subject, body)
        finally:
            client.close()

    def stream(self, name, *subjects, **more):
        answer = self.request("$JS.API.STREAM.CREATE." + name, {"name": name, "subjects": subjects, "storage": "file",
                                                                **more})
        assert "error" not in answer, answer

    def messages(self, stream):
        """[(subject, headers, data)] of all, in order."""
        client = self.client()
        found = []
        try:
            last = client.request("$JS.API.STREAM.INFO." + stream)["state"]["last_seq"]
            for seq in range(1, last + 1):
                answer = client.request("$JS.API.STREAM.MSG.GET." + stream, {"seq": seq})
                if "error" in answer:
                    continue
                message = answer["message"]
                lines = base64.b64decode(message.get("hdrs", "")).decode().split("\r\n")[1:]
                headers = dict(line.split(":", 1) for line in lines if line)
                found.append((message["subject"], {k: v.strip() for k, v in headers.items()},
                              base64.b64decode(message.get("data", ""))))
        finally:
            client.close()
        return found
