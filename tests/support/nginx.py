"""A private nginx on loopback: its own configuration, port and folder; it leaves nothing behind.

    with Nginx(folder, "location / { return 204; }") as nginx:
        nginx.url("/hook")
"""
import os
import shutil
import socket
import subprocess
import time

from .pgserver import free_port

PROGRAM = shutil.which("nginx", path=os.environ.get("PATH", "") + ":/usr/sbin:/sbin")

CONFIG = """
daemon off;
worker_processes 1;
pid {folder}/nginx.pid;
error_log {folder}/error.log;
events {{ worker_connections 1024; }}
http {{
    access_log {folder}/access.log combined;
    client_body_temp_path {folder}/body;
    proxy_temp_path {folder}/proxy;
    fastcgi_temp_path {folder}/fastcgi;
    uwsgi_temp_path {folder}/uwsgi;
    scgi_temp_path {folder}/scgi;
    keepalive_requests 1000000;
    client_max_body_size 1m;
    log_format counted '$connection $connection_requests $status $server_protocol $request_length';
    access_log {folder}/counted.log counted;
    server {{
        listen 127.0.0.1:{port}{listen};
        {body}
    }}
}}
"""


class Nginx:
    def __init__(self, folder, body="location / { return 204; }", tls=None, listen=""):
        self.folder, self.body, self.tls, self.listen = str(folder), body, tls, listen
        self.port = free_port()
        if tls:
            self.listen += " ssl"
            self.body = "ssl_certificate %s; ssl_certificate_key %s; %s" % (*tls, body)
        self.process = None

    def url(self, path="/"):
        return "%s://127.0.0.1:%d%s" % ("https" if self.tls else "http", self.port, path)

    def counted(self):
        """(connection, request of it, status, protocol) of every request so far."""
        with open(self.folder + "/counted.log") as file:
            return [tuple(line.split()[:4]) for line in file]

    def start(self):
        with open(self.folder + "/nginx.conf", "w") as file:
            file.write(CONFIG.format(folder=self.folder, port=self.port, listen=self.listen, body=self.body))
        os.chmod(self.folder, 0o755)
        self.process = subprocess.Popen([PROGRAM, "-p", self.folder, "-c", self.folder + "/nginx.conf"],
                                        stderr=subprocess.PIPE)
        end = time.monotonic() + 10
        while True:
            try:
                socket.create_connection(("127.0.0.1", self.port), timeout=1).close()
                return
            except OSError:
                assert self.process.poll() is None, self.process.stderr.read()
                assert time.monotonic() < end, "nginx does not answer"
                time.sleep(0.01)

    def stop(self):
        if self.process:
            self.process.terminate()
            self.process.wait(timeout=10)
            self.process.stderr.close()
        self.process = None

    def __enter__(self):
        self.start()
        return self

    def __exit__(self, *_):
        self.stop()
