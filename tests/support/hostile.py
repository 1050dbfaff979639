"""Receivers of webhooks that do all they can to keep a sender busy, in a process of their own: a flood must not slow the
test that measures how the others fare.

    with Hostile() as hostile:
        hostile.url("endless_chunk_extension")      # http://127.0.0.1:PORT/
        hostile.served()                            # {"endless_chunk_extension": 3, ...}: requests so far

Those whose names begin with h2_ speak HTTP/2 from the first byte (`version: 2`). With a certificate all speak TLS.
"""
import json
import os
import socket
import ssl
import struct
import subprocess
import sys
import threading
import time

BLOCK = 256 * 1024  # of a flood, at once

# ---- HTTP/1.1: each takes the socket after the request was read


def flood(sock, head, block):
    sock.sendall(head)
    block *= max(1, BLOCK // len(block))
    while True:
        sock.sendall(block)


def drip(sock, head, piece, pause=0.02):
    sock.sendall(head)
    while True:
        sock.sendall(piece)
        time.sleep(pause)


OK = b"HTTP/1.1 200 OK\r\n"
CHUNKED = OK + b"Transfer-Encoding: chunked\r\n\r\n"
MOVED = b"HTTP/1.1 307 Moved\r\nLocation: /\r\nContent-Length: 0\r\n\r\n"


def gzip_bomb():
    import gzip
    body = gzip.compress(b"\0" * 50_000_000)
    return OK + b"Content-Encoding: gzip\r\nContent-Length: %d\r\n\r\n" % len(body) + body


def once(data):
    def behave(sock):
        sock.sendall(data)
    return behave


HTTP1 = {
    "endless_chunk_extension": lambda s: flood(s, CHUNKED + b"1;", b"a"),
    "endless_chunk_extension_dripping": lambda s: drip(s, CHUNKED + b"1;", b"a" * 1000, 0.001),
    "endless_chunk_size": lambda s: flood(s, CHUNKED, b"0"),
    "endless_empty_extensions": lambda s: flood(s, CHUNKED, b"1;x=" + b"y" * 1000 + b"\r\nz\r\n"),
    "endless_header_line": lambda s: flood(s, OK + b"X-Long: ", b"a"),
    "endless_headers": lambda s: flood(s, OK, b"X-More: and more\r\n"),
    "endless_status_line": lambda s: flood(s, b"HTTP/1.1 200 ", b"O"),
    "endless_status_line_dripping": lambda s: drip(s, b"HTTP/1.1 200 ", b"O" * 50),
    "endless_interim": lambda s: flood(s, b"", b"HTTP/1.1 103 Early Hints\r\nLink: </x>\r\n\r\n"),
    "endless_continue": lambda s: flood(s, b"", b"HTTP/1.1 100 Continue\r\n\r\n"),
    "endless_trailers": lambda s: flood(s, CHUNKED + b"0\r\n", b"X-More: and more\r\n"),
    "endless_trailer_line": lambda s: flood(s, CHUNKED + b"0\r\nX-Long: ", b"a"),
    "endless_body": lambda s: flood(s, OK + b"Content-Length: 99999999999\r\n\r\n", b"b"),
    "endless_nothing": lambda s: flood(s, b"", b"\r\n"),
    "endless_zeros": lambda s: flood(s, b"", b"\0"),
    "drip": lambda s: drip(s, OK, b"X"),
    "gzip_bomb": once(gzip_bomb()),
    "redirect_loop": once(MOVED),
    "short_length": once(OK + b"Content-Length: 2\r\n\r\nmuch more than two"),
    "long_length": once(OK + b"Content-Length: 200\r\n\r\nless"),
    "two_lengths": once(OK + b"Content-Length: 2\r\nContent-Length: 3\r\n\r\nabc"),
    "negative_length": once(OK + b"Content-Length: -1\r\n\r\n"),
    "huge_length": once(OK + b"Content-Length: 99999999999999999999999\r\n\r\n"),
    "bad_chunk": once(CHUNKED + b"zz\r\n\r\n"),
    "huge_chunk": lambda s: flood(s, CHUNKED + b"7fffffffffffffff\r\n", b"c"),
}

# ---- HTTP/2: each takes the socket and the number of the stream


def frame(kind, flags, stream, payload=b""):
    return struct.pack(">I", len(payload))[1:] + struct.pack(">BBI", kind, flags, stream) + payload


DATA, HEADERS, PRIORITY, RST, SETTINGS, PUSH, PING, GOAWAY, WINDOW, CONTINUATION, ALTSVC = range(11)
END_STREAM, ACK, END_HEADERS, PADDED = 1, 1, 4, 8
GREETING = frame(SETTINGS, 0, 0) + frame(SETTINGS, ACK, 0)


def literal(name, value):
    return b"\x00" + bytes([len(name)]) + name + bytes([len(value)]) + value


def yes(stream):
    return frame(HEADERS, END_HEADERS, stream, b"\x88")


def interim(stream):
    return frame(HEADERS, END_HEADERS, stream, literal(b":status", b"103") + literal(b"link", b"</x>"))


HTTP2 = {
    "h2_empty_data": lambda s, n: flood(s, yes(n), frame(DATA, 0, n)),
    "h2_padding": lambda s, n: flood(s, yes(n), frame(DATA, PADDED, n, b"\xff" + b"\0" * 255)),
    "h2_window_updates": lambda s, n: flood(s, yes(n), frame(WINDOW, 0, 0, struct.pack(">I", 1))),
    "h2_window_updates_before": lambda s, n: flood(s, b"", frame(WINDOW, 0, n, struct.pack(">I", 1))),
    "h2_priority": lambda s, n: flood(s, b"", frame(PRIORITY, 0, n, struct.pack(">IB", 0, 1))),
    "h2_ping": lambda s, n: flood(s, yes(n), frame(PING, 0, 0, b"\0" * 8)),
    "h2_ping_acks": lambda s, n: flood(s, yes(n), frame(PING, ACK, 0, b"\0" * 8)),
    "h2_settings": lambda s, n: flood(s, yes(n), frame(SETTINGS, 0, 0)),
    "h2_settings_long": lambda s, n: flood(s, yes(n), frame(SETTINGS, 0, 0, struct.pack(">HI", 0xabc, 7) * 30)),
    "h2_unknown_frames": lambda s, n: flood(s, yes(n), frame(0xbe, 0, n, b"?" * 10000)),
    "h2_unknown_empty": lambda s, n: flood(s, b"", frame(0xbe, 0, 0)),
    "h2_altsvc": lambda s, n: flood(s, yes(n), frame(ALTSVC, 0, n, b"\0\0x")),
    "h2_continuation": lambda s, n: flood(s, frame(HEADERS, 0, n, b"\x88"), frame(CONTINUATION, 0, n)),
    "h2_headers": lambda s, n: flood(s, frame(HEADERS, 0, n, b"\x88"),
                                     frame(CONTINUATION, 0, n, literal(b"x-more", b"and more") * 20)),
    "h2_interim": lambda s, n: flood(s, b"", interim(n)),
    "h2_trailers": lambda s, n: flood(s, yes(n), frame(HEADERS, END_HEADERS, n, literal(b"x", b"y"))),
    "h2_resets": lambda s, n: flood(s, b"", frame(RST, 0, n, struct.pack(">I", 7))),
    "h2_goaways": lambda s, n: flood(s, yes(n), frame(GOAWAY, 0, 0, struct.pack(">II", n, 0))),
    "h2_push": lambda s, n: flood(s, b"", frame(PUSH, END_HEADERS, n, struct.pack(">I", 2) + b"\x82")),
    "h2_endless_body": lambda s, n: flood(s, yes(n), frame(DATA, 0, n, b"d" * 16000)),
    "h2_dripping": lambda s, n: drip(s, yes(n), frame(PRIORITY, 0, n, struct.pack(">IB", 0, 1)) * 50, 0.001),
}


def read_request(sock):
    data = b""
    while b"\r\n\r\n" not in data:
        more = sock.recv(65536)
        if not more:
            return False
        data += more
    head, body = data.split(b"\r\n\r\n", 1)
    length = [int(line.split(b":")[1]) for line in head.split(b"\r\n") if line.lower().startswith(b"content-length")]
    while length and len(body) < length[0]:
        body += sock.recv(65536)
    return True


def read_stream(sock):
    """The number of the stream whose request is complete."""
    file = sock.makefile("rb")
    if len(file.read(24)) < 24:
        return 0
    sock.sendall(GREETING)
    while len(head := file.read(9)) == 9:
        kind, flags, stream = struct.unpack(">BBI", head[3:])
        file.read(int.from_bytes(head[:3], "big"))
        if kind in (DATA, HEADERS) and flags & END_STREAM:
            return stream
    return 0


class Server:
    """One behaviour at one port."""

    def __init__(self, name, context):
        self.name, self.context, self.served = name, context, 0
        self.socket = socket.create_server(("127.0.0.1", 0), backlog=256)
        self.port = self.socket.getsockname()[1]
        threading.Thread(target=self.accept, daemon=True).start()

    def accept(self):
        while True:
            sock, _ = self.socket.accept()
            threading.Thread(target=self.serve, args=(sock,), daemon=True).start()

    def serve(self, sock):
        try:
            if self.context:
                sock = self.context.wrap_socket(sock, server_side=True)
            sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            with sock:
                if self.name in HTTP2:
                    stream = read_stream(sock)
                    self.served += stream > 0
                    if stream:
                        HTTP2[self.name](sock, stream)
                    return
                while read_request(sock):
                    self.served += 1
                    HTTP1[self.name](sock)
        except OSError:
            pass


def serve(cert, key):
    contexts = {}
    for version in (1, 2) if cert else ():
        contexts[version] = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        contexts[version].load_cert_chain(cert, key)
        contexts[version].set_alpn_protocols(["h2"] if version == 2 else ["http/1.1"])
    servers = [Server(name, contexts.get(2 if name in HTTP2 else 1)) for name in [*HTTP1, *HTTP2]]
    print(json.dumps({server.name: server.port for server in servers}), flush=True)
    while sys.stdin.readline():
        print(json.dumps({server.name: server.served for server in servers}), flush=True)


class Hostile:
    def __init__(self, cert=None, key=None):
        command = [sys.executable, os.path.abspath(__file__)] + ([cert, key] if cert else [])
        self.scheme = "https" if cert else "http"
        self._process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE)
        self._ports = json.loads(self._process.stdout.readline())

    def url(self, name):
        return "%s://127.0.0.1:%d/" % (self.scheme, self._ports[name])

    def served(self):
        self._process.stdin.write(b"\n")
        self._process.stdin.flush()
        return json.loads(self._process.stdout.readline())

    def close(self):
        self._process.kill()
        self._process.wait()
        self._process.stdin.close()
        self._process.stdout.close()

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.close()


if __name__ == "__main__":
    serve(*(sys.argv[1:3] if len(sys.argv) > 2 else (None, None)))
