"""A receiver of webhooks on loopback, made of plain sockets, so that it can misbehave in every way a real one can.

    with Receiver() as receiver:
        receiver.behave = status(503, {"Retry-After": "7"})
        drive("http", {"url": receiver.url("/hook"), "allow": "127.0.0.0/8"}, [{"topic": "a", "payload": 1}])
        assert receiver.requests[0].header("webhook-id")

behave(request, sock) answers one request; it returns whether the connection goes on. Requests are recorded whole,
before they are answered.
"""
import socket
import ssl
import struct
import subprocess
import threading
import time

from support.under import PATIENCE


class Request:
    def __init__(self, connection, line, headers, body):
        self.connection = connection  # its number, from 1
        self.method, self.path, self.protocol = line.split(" ")
        self.headers = headers  # pairs, as they came
        self.body = body

    def all(self, name):
        return [value for key, value in self.headers if key.lower() == name.lower()]

    def header(self, name):
        values = self.all(name)
        assert len(values) <= 1, (name, values)
        return values[0] if values else None


def status(code, headers=None, body=b""):
    """Answers so, and keeps the connection."""
    def behave(_, sock):
        fields = {"Content-Length": str(len(body)), **(headers or {})}
        if code == 204:
            del fields["Content-Length"]
        text = "HTTP/1.1 %d Some Reason\r\n" % code + "".join("%s: %s\r\n" % pair for pair in fields.items())
        sock.sendall(text.encode() + b"\r\n" + body)
        return True
    return behave


def raw(data, close=True):
    """Sends these bytes."""
    def behave(_, sock):
        sock.sendall(data)
        return not close
    return behave


def hang_up(_request, _sock):
    """Closes without a word."""
    return False


def reset(_request, sock):
    """Breaks the connection off."""
    sock.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
    return False


def in_turn(*behaviours):
    """The first request gets the first; the last one stays."""
    left = list(behaviours)

    def behave(request, sock):
        return (left.pop(0) if len(left) > 1 else left[0])(request, sock)
    return behave


class Receiver:
    def __init__(self, behave=None, tls=None, host="127.0.0.1", port=0):
        self.behave = behave or status(204)
        self.requests = []
        self.connections = 0
        self.open = 0  # connections that are there now
        self.stopping = threading.Event()  # for behaviours that take long
        self._tls = tls
        self._changed = threading.Condition()
        self._host = host
        family = socket.AF_INET6 if ":" in host else socket.AF_INET
        self._socket = socket.create_server((host, port), family=family, backlog=512)
        self.port = self._socket.getsockname()[1]
        self._threads = [threading.Thread(target=self._accept, daemon=True)]
        self._live = set()
        self._threads[0].start()

    def url(self, path="/hook", host=None):
        host = host or ("[%s]" % self._host if ":" in self._host else self._host)
        return "%s://%s:%d%s" % ("https" if self._tls else "http", host, self.port, path)

    def _accept(self):
        while not self.stopping.is_set():
            try:
                sock, _ = self._socket.accept()
            except OSError:
                return
            self.connections += 1
            thread = threading.Thread(target=self._serve, args=(sock, self.connections), daemon=True)
            self._threads.append(thread)
            thread.start()

    def _serve(self, sock, number):
        with self._changed:
            self._live.add(sock)
            self.open += 1
        try:
            if self._tls:
                plain, sock = sock, self._tls.wrap_socket(sock, server_side=True)
                with self._changed:
                    self._live.discard(plain)
                    self._live.add(sock)
            with sock:
                sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
                file = sock.makefile("rb")
                while (request := self._read(file, number)) is not None:
                    with self._changed:
                        self.requests.append(request)
                        self._changed.notify_all()
                    if not self.behave(request, sock):
                        break
                file.close()
        except (OSError, ValueError):
            pass
        finally:
            with self._changed:
                self._live.discard(sock)
                self.open -= 1
                self._changed.notify_all()

    @staticmethod
    def _read(file, number):
        line = file.readline().decode("latin-1").rstrip("\r\n")
        if not line:
            return None
        headers = []
        while (field := file.readline().decode("utf-8").rstrip("\r\n")):
            name, value = field.split(":", 1)
            headers.append((name, value.strip()))
        length = [int(value) for name, value in headers if name.lower() == "content-length"]
        return Request(number, line, headers, file.read(length[0]) if length else b"")

    def wait(self, condition, seconds=10):
        """Until condition(self) holds."""
        end = time.monotonic() + seconds * PATIENCE
        with self._changed:
            while not condition(self):
                assert self._changed.wait(max(0, end - time.monotonic())), "it did not happen in time"

    def close(self):
        self.stopping.set()
        # close alone does not end an accept that waits
        self._socket.shutdown(socket.SHUT_RDWR)
        self._socket.close()
        with self._changed:
            live = list(self._live)
        for sock in live:
            try:
                sock.shutdown(socket.SHUT_RDWR)
            except OSError:
                pass
        for thread in self._threads:
            thread.join(timeout=5)

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.close()


def certificate(folder, name="127.0.0.1", days=2, stem="server"):
    """A self-signed certificate for an address or a name; the paths of (certificate, key). days < 0: it has expired."""
    cert, key, request = (str(folder / (stem + end)) for end in (".crt", ".key", ".csr"))
    kind = "IP" if name.replace(".", "").isdigit() or ":" in name else "DNS"
    for command in (["req", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1", "-nodes", "-keyout", key,
                     "-out", request, "-subj", "/CN=" + stem, "-addext", "subjectAltName=%s:%s" % (kind, name)],
                    ["x509", "-req", "-in", request, "-signkey", key, "-days", str(days), "-copy_extensions",
                     "copyall", "-out", cert]):
        subprocess.run(["openssl", *command], check=True, capture_output=True)
    return cert, key


def tls_context(cert, key, most=None, client_ca=None):
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(cert, key)
    if most:
        context.minimum_version = ssl.TLSVersion.MINIMUM_SUPPORTED
        context.set_ciphers("ALL:@SECLEVEL=0")
        context.maximum_version = most
    if client_ca:
        context.verify_mode = ssl.CERT_REQUIRED
        context.load_verify_locations(client_ca)
    return context


class Hook(Receiver):
    """A receiver that keeps a ledger: what it got and was about to accept, in the order it came."""

    def __init__(self, answer=None, **options):
        self.accepted = []
        self.answer = answer or status(204)
        super().__init__(self._take, **options)

    def _take(self, request, sock):
        seq = request.header("outbox-seq")
        self.accepted.append({"id": request.header("outbox-id") or request.header("webhook-id"),
                              "attempt": int(request.header("outbox-attempt")), "key": request.header("outbox-key"),
                              "seq": int(seq) if seq else None})
        return self.answer(request, sock)
