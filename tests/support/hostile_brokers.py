"""Brokers and mail servers of every bad kind, many at once, in a process of their own.

    with Hostile() as servers:
        servers.ports["redis-huge"]

A server has a protocol and a behaviour: "redis-huge". Each protocol is a dialogue that a good server would lead; the
behaviour stands between the dialogue and the socket and spoils what is said. What a behaviour does with chance comes from
a seed, and is the same each time.
"""
import json
import os
import random
import socket
import struct
import subprocess
import sys
import threading
import time

PROTOCOLS = ("redis", "nats", "amqp", "mqtt", "smtp")
CHUNK = b"x" * 65536


class Wire:
    """A good server's connection. `said` counts what it has said."""

    def __init__(self, conn, protocol, number):
        self.conn, self.protocol, self.said = conn, protocol, 0
        self.file = conn.makefile("rb")
        self.chance = random.Random(number)

    def begin(self):
        pass

    def line(self):
        line = self.file.readline(1 << 20)
        if not line:
            raise EOFError
        return line

    def exact(self, size):
        data = self.file.read(size)
        if len(data) < size:
            raise EOFError
        return data

    def say(self, data):
        self.said += 1
        self.conn.sendall(data)

    def flood(self, data):
        while True:
            self.conn.sendall(data)

    def listen(self):
        while self.conn.recv(65536):
            pass
        raise EOFError


# ---- dialogues

def redis(wire):
    while True:
        words = []
        for _ in range(int(wire.line()[1:])):
            words.append(wire.exact(int(wire.line()[1:]) + 2)[:-2])
        if words[0] == b"XADD":
            wire.say(b"$3\r\n7-0\r\n")
        elif words[0] == b"INFO":
            wire.say(b"$22\r\nredis_version:7.0.15\r\n\r\n")
        else:
            wire.say(b"+OK\r\n")


def nats(wire):
    wire.say(b'INFO {"server_id":"x","version":"2.9.10","proto":1,"headers":true,"jetstream":true,"max_payload":1048576}\r\n')
    sid, sequence = b"1", 0
    while True:
        words = wire.line().split()
        if words[0] == b"PING":
            wire.say(b"PONG\r\n")
        elif words[0] == b"SUB":
            sid = words[-1]
        elif words[0] in (b"PUB", b"HPUB"):
            wire.exact(int(words[-1]) + 2)
            sequence += 1
            body = b'{"stream":"s","seq":%d}' % sequence
            wire.say(b"MSG %s %s %d\r\n%s\r\n" % (words[2], sid, len(body), body))


def amqp(wire):
    from pika import frame, spec

    def say(method, channel=1):
        wire.say(frame.Method(channel, method).marshal())
    wire.exact(8)
    say(spec.Connection.Start(mechanisms="PLAIN", locales="en_US"), 0)
    answers = {spec.Connection.StartOk: (spec.Connection.Tune(8, 131072, 0), 0),
               spec.Connection.Open: (spec.Connection.OpenOk(), 0), spec.Channel.Open: (spec.Channel.OpenOk(), 1),
               spec.Exchange.Declare: (spec.Exchange.DeclareOk(), 1), spec.Confirm.Select: (spec.Confirm.SelectOk(), 1)}
    tag = left = 0
    while True:
        head = wire.exact(7)
        _, found = frame.decode_frame(head + wire.exact(struct.unpack(">I", head[3:])[0] + 1))
        if isinstance(found, frame.Method):
            answer = answers.get(type(found.method))
            if answer:
                say(*answer)
            continue
        if isinstance(found, frame.Header):
            left = found.body_size
        elif isinstance(found, frame.Body):
            left -= len(found.fragment)
        if not left and isinstance(found, (frame.Header, frame.Body)):
            tag += 1
            say(spec.Basic.Ack(tag))


def mqtt(wire):
    while True:
        kind, size, shift = wire.exact(1)[0], 0, 0
        while True:
            byte = wire.exact(1)[0]
            size |= (byte & 127) << shift
            shift += 7
            if byte < 128:
                break
        body = wire.exact(size)
        if kind >> 4 == 1:
            wire.say(b"\x20\x06\x00\x00\x03\x21\x00\x14")
        elif kind >> 4 == 3:
            topic, = struct.unpack(">H", body[:2])
            wire.say(b"\x40\x02" + body[2 + topic:4 + topic])
        elif kind >> 4 == 12:
            wire.say(b"\xd0\x00")


def smtp(wire):
    wire.say(b"220 here\r\n")
    while True:
        word = wire.line().split()[:1]
        if word == [b"EHLO"]:
            wire.say(b"250-here\r\n250 SIZE 10000000\r\n")
        elif word == [b"DATA"]:
            wire.say(b"354 go\r\n")
            while wire.line() != b".\r\n":
                pass
            wire.say(b"250 taken\r\n")
        elif word == [b"QUIT"]:
            wire.say(b"221 bye\r\n")
            return
        else:
            wire.say(b"250 fine\r\n")


# ---- behaviours

LINE = {"redis": b"+", "nats": b"INFO {", "amqp": b"\x01\x00\x00\x00\x01\xff\xff", "mqtt": b"\x20\xff\xff\x03", "smtp": b"220 "}
HUGE = {"redis": b"$1073741824\r\n", "nats": b"MSG a 1 1073741824\r\n", "amqp": b"\x01\x00\x00\x7f\xff\xff\xf0",
        "mqtt": b"\x20\xff\xff\xff\x7f", "smtp": b""}
MANY = {"redis": b"*1000000000\r\n", "nats": b"+OK\r\n" * 1000, "amqp": b"\x08\x00\x00\x00\x00\x00\x00\xce" * 1000,
        "mqtt": b"\xd0\x00" * 1000, "smtp": b"250-more\r\n" * 1000}


class Silent(Wire):
    def begin(self):
        self.listen()


class Garbage(Wire):
    def begin(self):
        self.conn.sendall(self.chance.randbytes(100000))
        self.listen()


class Close(Wire):
    """After a few words, another number of them with each connection."""

    def begin(self):
        self.most = self.chance.randrange(8)

    def say(self, data):
        if self.said >= self.most:
            raise EOFError
        super().say(data)


class Half(Close):
    """The same, in the middle of the last one."""

    def say(self, data):
        if self.said >= self.most:
            self.conn.sendall(data[:len(data) // 2])
            raise EOFError
        super().say(data)


class Drip(Wire):
    def say(self, data):
        for byte in data:
            self.conn.sendall(bytes([byte]))
            time.sleep(0.1)


class Twice(Wire):
    """Answers more than was asked."""

    def say(self, data):
        super().say(data * 50)


class Spoilt(Wire):
    """Says what a good one says, with some bytes changed."""

    def say(self, data):
        data = bytearray(data)
        for _ in range(self.chance.randrange(3)):
            data[self.chance.randrange(len(data))] = self.chance.randrange(256)
        super().say(bytes(data))


class Line(Wire):
    """A line, or a packet, without end: at once, or in place of a later word."""

    head, filler = LINE, CHUNK

    def begin(self):
        self.most = self.chance.randrange(6)
        if not self.most:
            self.conn.sendall(self.head[self.protocol])
            self.flood(self.filler)

    def say(self, data):
        if self.said >= self.most:
            self.conn.sendall(self.head[self.protocol])
            self.flood(self.filler)
        super().say(data)


class Huge(Line):
    """A length that nobody asked for, and as many bytes as one cares to read."""

    head, filler = HUGE, bytes(65536)


class Many(Line):
    """Small things without end."""

    def flood(self, data):
        super().flood(MANY[self.protocol])

    head = dict.fromkeys(PROTOCOLS, b"")


BEHAVIOURS = {"good": Wire, "silent": Silent, "garbage": Garbage, "close": Close, "half": Half, "drip": Drip, "twice": Twice,
              "spoilt": Spoilt, "line": Line, "huge": Huge, "many": Many}
DIALOGUES = {"redis": redis, "nats": nats, "amqp": amqp, "mqtt": mqtt, "smtp": smtp}


def hold(conn, protocol, behaviour, number):
    conn.settimeout(60)
    try:
        with conn:
            wire = BEHAVIOURS[behaviour](conn, protocol, number)
            wire.begin()
            DIALOGUES[protocol](wire)
    except Exception:  # whatever the other side says to this is no matter of ours
        pass


def serve(listener, protocol, behaviour):
    number = 0
    while True:
        conn, _ = listener.accept()
        number += 1
        threading.Thread(target=hold, args=(conn, protocol, behaviour, number), daemon=True).start()


def main():
    os.nice(10)
    threading.stack_size(256 * 1024)
    ports = {}
    for protocol in PROTOCOLS:
        for behaviour in BEHAVIOURS:
            listener = socket.create_server(("127.0.0.1", 0), backlog=64)
            ports["%s-%s" % (protocol, behaviour)] = listener.getsockname()[1]
            threading.Thread(target=serve, args=(listener, protocol, behaviour), daemon=True).start()
    print(json.dumps(ports), flush=True)
    sys.stdin.read()


class Hostile:
    def __enter__(self):
        self.process = subprocess.Popen([sys.executable, os.path.abspath(__file__)], stdin=subprocess.PIPE,
                                        stdout=subprocess.PIPE, text=True)
        self.ports = json.loads(self.process.stdout.readline())
        return self

    def __exit__(self, *_):
        self.process.kill()
        self.process.wait()
        self.process.stdin.close()
        self.process.stdout.close()


if __name__ == "__main__":
    main()
