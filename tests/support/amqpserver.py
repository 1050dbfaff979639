"""A broker that speaks just enough of AMQP 0-9-1 to say what RabbitMQ says only in rare states.

    with Scripted(lambda server, tag, props: server.ack(tag), frame_max=4096) as server: ...

The function is given each message: its number on the channel and its properties. What it wants to say it says.
"""
import socket
import threading

from pika import frame, spec


class Scripted:
    def __init__(self, publish=lambda server, tag, props: server.ack(tag), frame_max=131072, tls=None):
        self.publish, self.frame_max, self.tls = publish, frame_max, tls
        self.listener = socket.create_server(("127.0.0.1", 0))
        self.port = self.listener.getsockname()[1]
        self.conn, self.connections = None, 0
        self.thread = threading.Thread(target=self.run, daemon=True)

    def url(self):
        return "amqp://127.0.0.1:%d" % self.port

    def say(self, method, channel=1):
        self.conn.sendall(frame.Method(channel, method).marshal())

    def ack(self, tag, multiple=False):
        self.say(spec.Basic.Ack(tag, multiple))

    def give_back(self, props, body=b"{}"):
        self.say(spec.Basic.Return(312, "NO_ROUTE", "", ""))
        self.conn.sendall(frame.Header(1, len(body), props).marshal() + frame.Body(1, body).marshal())

    def answer(self, method):
        if isinstance(method, spec.Connection.StartOk):
            self.say(spec.Connection.Tune(8, self.frame_max, 0), 0)
        for asked, said, channel in ((spec.Connection.Open, spec.Connection.OpenOk, 0),
                                     (spec.Channel.Open, spec.Channel.OpenOk, 1),
                                     (spec.Exchange.Declare, spec.Exchange.DeclareOk, 1),
                                     (spec.Confirm.Select, spec.Confirm.SelectOk, 1)):
            if isinstance(method, asked):
                self.say(said(), channel)

    def frames(self):
        data = b""
        while (more := self.conn.recv(65536)):
            data += more
            while True:
                used, found = frame.decode_frame(data)
                if not used:
                    break
                data = data[used:]
                yield found

    def speak(self):
        tag, props, left = 0, None, 0
        for found in self.frames():
            if isinstance(found, frame.ProtocolHeader):
                self.say(spec.Connection.Start(mechanisms="PLAIN", locales="en_US"), 0)
            elif isinstance(found, frame.Method):
                self.answer(found.method)
            elif isinstance(found, (frame.Header, frame.Body)):
                if isinstance(found, frame.Header):
                    props, left = found.properties, found.body_size
                else:
                    left -= len(found.fragment)
                if not left:
                    tag += 1
                    self.publish(self, tag, props)

    def run(self):
        while True:
            try:
                conn, _ = self.listener.accept()
            except OSError:
                return
            self.connections += 1
            try:
                with self.tls.wrap_socket(conn, server_side=True) if self.tls else conn as self.conn:
                    self.speak()
            except OSError:
                pass

    def __enter__(self):
        self.thread.start()
        return self

    def __exit__(self, *_):
        self.listener.shutdown(socket.SHUT_RDWR)
        self.listener.close()
        self.thread.join(5)
