"""A server that speaks just enough of the Redis protocol to say what a real one says only in rare states.

    with Resp(lambda words: b"-LOADING still loading\\r\\n" if words[0] == "XADD" else None) as server: ...

The function is given each command; None means +OK, an id for XADD. False closes the connection.
"""
import socketserver
import threading


class Resp:
    def __init__(self, answer=lambda words: None, version="7.0.15"):
        self.commands = []
        outer = self

        class Handler(socketserver.StreamRequestHandler):
            def handle(self):
                while (line := self.rfile.readline()):
                    words = []
                    for _ in range(int(line[1:])):
                        size = int(self.rfile.readline()[1:])
                        words.append(self.rfile.read(size + 2)[:-2].decode())
                    outer.commands.append(words)
                    reply = answer(words)
                    if reply is False:
                        return
                    self.wfile.write(outer.usual(words, version) if reply is None else reply)

        class Server(socketserver.ThreadingTCPServer):
            allow_reuse_address = daemon_threads = True

        self.server = Server(("127.0.0.1", 0), Handler)
        self.port = self.server.server_address[1]
        self.thread = threading.Thread(target=self.server.serve_forever, kwargs={"poll_interval": 0.02})

    @staticmethod
    def usual(words, version):
        if words[0] == "XADD":
            return b"$3\r\n7-0\r\n"
        if words[0] == "INFO":
            text = b"# Server\r\nredis_version:%s\r\n" % version.encode()
            return b"$%d\r\n%s\r\n" % (len(text), text)
        return b"+OK\r\n"

    def url(self):
        return "redis://127.0.0.1:%d" % self.port

    def xadds(self):
        return [words for words in self.commands if words[0] == "XADD"]

    def __enter__(self):
        self.thread.start()
        return self

    def __exit__(self, *_):
        self.server.shutdown()
        self.server.server_close()
        self.thread.join()
