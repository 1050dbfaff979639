"""A receiver of webhooks that notes when each arrived. A process of its own: what measures must not wait for itself.

    python3 receiver.py PORT_FILE    then GET /arrivals gives [[i, seconds since 1970], ...] and forgets them
"""
import asyncio
import contextlib
import json
import os
import re
import subprocess
import sys
import tempfile
import time
import urllib.request

NUMBER = re.compile(rb'"i": ?(\d+)')


class Protocol(asyncio.Protocol):
    """Just enough HTTP/1.1: requests with a Content-Length, answers without a body."""
    arrivals = []

    def __init__(self):
        self.data = b""

    def connection_made(self, transport):
        self.transport = transport

    def data_received(self, data):
        now = time.time()
        self.data += data
        while True:
            head, mark, rest = self.data.partition(b"\r\n\r\n")
            if not mark:
                return
            found = re.search(rb"(?i)\r\ncontent-length: *(\d+)", head)
            length = int(found.group(1)) if found else 0
            if len(rest) < length:
                return
            body, self.data = rest[:length], rest[length:]
            self.answer(head, body, now)

    def answer(self, head, body, now):
        if head.startswith(b"GET /arrivals"):
            text = json.dumps(self.arrivals).encode()
            self.arrivals.clear()
            self.transport.write(b"HTTP/1.1 200 OK\r\nContent-Length: %d\r\n\r\n" % len(text) + text)
            return
        found = NUMBER.search(body)
        self.arrivals.append((int(found.group(1)) if found else -1, now))
        self.transport.write(b"HTTP/1.1 204 No Content\r\n\r\n")


async def serve(path):
    loop = asyncio.get_running_loop()
    server = await loop.create_server(Protocol, "127.0.0.1", 0)
    with open(path + ".new", "w") as file:
        file.write(str(server.sockets[0].getsockname()[1]))
    os.rename(path + ".new", path)
    await server.serve_forever()


class Receiver:
    def __init__(self, port):
        self.url = "http://127.0.0.1:%d/hook" % port
        self.port = port

    def arrivals(self):
        """What came since the last call: {i: when}; of several, the first."""
        with urllib.request.urlopen("http://127.0.0.1:%d/arrivals" % self.port) as answer:
            found = {}
            for i, when in json.load(answer):
                found.setdefault(i, when)
            return found


@contextlib.contextmanager
def receiver():
    with tempfile.TemporaryDirectory(prefix="outbox-bench-") as folder:
        path = os.path.join(folder, "port")
        process = subprocess.Popen([sys.executable, os.path.abspath(__file__), path])
        try:
            end = time.monotonic() + 10
            while not os.path.exists(path):
                if time.monotonic() > end or process.poll() is not None:
                    raise RuntimeError("the receiver did not start")
                time.sleep(0.01)
            with open(path) as file:
                yield Receiver(int(file.read()))
        finally:
            process.kill()
            process.wait()


if __name__ == "__main__":
    asyncio.run(serve(sys.argv[1]))
