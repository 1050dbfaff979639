"""A private mosquitto: its own port, configuration and folder; a subscriber that keeps what it sees; and a broker of a few
lines that says what a real one says only in rare states.

The broker's log is a ledger: it is written before a message is acknowledged, and outlives kill -9.
"""
import getpass
import re
import socket
import struct
import threading

import paho.mqtt.client as paho

from support.broker import Broker, find_program

PROGRAM = find_program("mosquitto")


class Mosquitto(Broker):
    def command(self):
        with open(self.folder + "/mosquitto.conf", "w") as file:
            file.write("user %s\nlistener %d 127.0.0.1\nallow_anonymous %s\npersistence false\nlog_dest stderr\n"
                       "log_type all\n%s\n" % (getpass.getuser(), self.port, self.settings.get("anonymous", "true"),
                                               self.settings.get("config", "")))
        return [PROGRAM, "-c", self.folder + "/mosquitto.conf"]

    def url(self):
        return "mqtt://127.0.0.1:%d" % self.port

    def received(self, prefix):
        """What stands behind prefix in the topics of all messages received, in order."""
        return re.findall(r"Received PUBLISH from .*'%s([^']*)'" % re.escape(prefix), self.log())


class Subscriber:
    """Sees everything; messages as paho gives them."""

    def __init__(self, port, **login):
        self.messages = []
        ready = threading.Event()
        self.client = paho.Client(protocol=paho.MQTTv5)
        if login:
            self.client.username_pw_set(**login)
        self.client.on_message = lambda client, data, message: self.messages.append(message)
        self.client.on_connect = lambda *_: self.client.subscribe("#", qos=2)
        self.client.on_subscribe = lambda *_: ready.set()
        self.client.connect("127.0.0.1", port)
        self.client.loop_start()
        assert ready.wait(10)

    def close(self):
        self.client.disconnect()
        self.client.loop_stop()


class Scripted:
    """Accepts a connection with one reason, and answers each PUBLISH by a function of its topic: a reason, None for
    silence, or "close"."""

    def __init__(self, answer, connack=0, properties=b""):
        self.answer, self.connack, self.properties = answer, connack, properties
        self.topics = []
        self.server = socket.create_server(("127.0.0.1", 0))
        self.url = "mqtt://127.0.0.1:%d" % self.server.getsockname()[1]
        self.thread = threading.Thread(target=self.run, daemon=True)

    @staticmethod
    def packet(file):
        kind = file.read(1)
        if not kind:
            return None, b""
        size = shift = 0
        while True:
            byte = file.read(1)[0]
            size |= (byte & 127) << shift
            shift += 7
            if byte < 128:
                return kind[0], file.read(size)

    def run(self):
        while True:
            try:
                conn, _ = self.server.accept()
            except OSError:
                return
            with conn, conn.makefile("rb") as file:
                try:
                    self.speak(conn, file)
                except OSError:
                    pass

    def speak(self, conn, file):
        while True:
            kind, body = self.packet(file)
            if kind is None:
                return
            if kind >> 4 == 1:
                conn.sendall(bytes([0x20, 3 + len(self.properties), 0, self.connack, len(self.properties)])
                             + self.properties)
            elif kind >> 4 == 3:
                size, = struct.unpack(">H", body[:2])
                self.topics.append(body[2:2 + size].decode())
                reason = self.answer(self.topics[-1])
                if reason == "close":
                    return
                if reason is not None:
                    conn.sendall(bytes([0x40, 4]) + body[2 + size:4 + size] + bytes([reason, 0]))
            elif kind >> 4 == 12:
                conn.sendall(bytes([0xd0, 0]))

    def __enter__(self):
        self.thread.start()
        return self

    def __exit__(self, *_):
        self.server.shutdown(socket.SHUT_RDWR)
        self.server.close()
        self.thread.join(5)
