"""A private exim on loopback: its own configuration, port, spool and mailboxes in a folder that goes away with it.

    with Exim() as exim:
        drive("smtp", exim.options(), [...])
        exim.wait(1)
        exim.mails()[0]["Subject"]

It takes mail for example.org and delivers it into one maildir. nobody@example.org is refused. Exim
keeps its rights only when root starts it. It syncs every mail to its spool: in memory, if there is such a folder.
"""
import email
import email.policy
import os
import pwd
import shutil
import subprocess
import tempfile
import time

import pytest

from support.nginx import free_port

PROGRAM = shutil.which("exim4", path=os.environ.get("PATH", "") + ":/usr/sbin:/sbin")

needs_exim = pytest.mark.skipif(not PROGRAM or os.geteuid() != 0, reason="needs exim4, and root to start it")

CONFIG = """
primary_hostname = mail.test
spool_directory = {folder}/spool
log_file_path = {folder}/log/%slog
pid_file_path = {folder}/exim.pid
daemon_smtp_ports = {port}
local_interfaces = 127.0.0.1
keep_environment =
host_lookup =
rfc1413_query_timeout = 0s
smtp_accept_max = 100
smtp_accept_queue = 0
smtp_accept_queue_per_connection = 0
queue_only = {queue_only}
log_selector = +smtp_connection
message_size_limit = 1M
acl_smtp_rcpt = recipient
acl_smtp_data = content
{tls}
begin acl
recipient:
  deny local_parts = nobody
       message = 550 5.1.1 there is nobody of that name
  accept domains = example.org
  deny message = 550 5.7.1 relaying is denied
content:
  accept
begin routers
all:
  driver = accept
  transport = box
begin transports
box:
  driver = appendfile
  directory = {folder}/box
  maildir_format
  envelope_to_add
  return_path_add
  user = Debian-exim
begin authenticators
plain:
  driver = plaintext
  public_name = PLAIN
  server_prompts = :
  server_condition = ${{if and{{{{eq{{$auth2}}{{shop}}}}{{eq{{$auth3}}{{right}}}}}}}}
  server_set_id = $auth2
"""


class Exim:
    def __init__(self, tls=None, queue_only=False):
        self.folder = tempfile.mkdtemp(prefix="outbox-exim-", dir="/dev/shm" if os.path.isdir("/dev/shm") else None)
        self.port = free_port()
        lines = ["tls_advertise_hosts ="] if not tls else \
            ["tls_advertise_hosts = *", "tls_certificate = %s" % self._copy(tls[0]),
             "tls_privatekey = %s" % self._copy(tls[1])]
        self.config = os.path.join(self.folder, "exim.conf")
        with open(self.config, "w") as file:
            file.write(CONFIG.format(folder=self.folder, port=self.port, tls="\n".join(lines),
                                     queue_only=str(queue_only).lower()))
        user = pwd.getpwnam("Debian-exim")
        for name in ("spool", "log", "box"):
            os.mkdir(os.path.join(self.folder, name))
        for path in [self.folder, *(os.path.join(self.folder, name) for name in os.listdir(self.folder))]:
            if path != self.config:
                os.chown(path, user.pw_uid, user.pw_gid)
        self.process = None

    def _copy(self, path):
        """Where exim's own user can read it."""
        return shutil.copy(path, self.folder)

    def start(self):
        self.process = subprocess.Popen([PROGRAM, "-C", self.config, "-bdf", "-q30m"], stdout=subprocess.DEVNULL,
                                        stderr=subprocess.PIPE, text=True)
        end = time.monotonic() + 10
        while time.monotonic() < end:
            assert self.process.poll() is None, self.process.stderr.read()
            if subprocess.run(["bash", "-c", "exec 3<>/dev/tcp/127.0.0.1/%d && head -1 <&3" % self.port],
                              capture_output=True).stdout.startswith(b"220"):
                return self
            time.sleep(0.05)
        raise AssertionError("exim did not start")

    def options(self, **more):
        return {"url": "smtp://127.0.0.1:%d" % self.port, "from": "Shop <shop@example.org>", "ehlo": "client.test",
                **more}

    def _files(self):
        folder = os.path.join(self.folder, "box", "new")
        return [os.path.join(folder, name) for name in os.listdir(folder)] if os.path.isdir(folder) else []

    def wait(self, count, seconds=60):
        """Until so many mails are in the box."""
        end = time.monotonic() + seconds
        while len(self._files()) < count:
            assert time.monotonic() < end, "%d of %d mails came; %s" % (len(self._files()), count, self.log()[-2000:])
            time.sleep(0.05)

    def mails(self):
        found = []
        for path in self._files():
            with open(path, "rb") as file:
                found.append(email.message_from_binary_file(file, policy=email.policy.default))
        return found

    def connections(self):
        """How many there were; those that looked whether it is up count too."""
        return self.log().count("(TCP/IP connection count =")

    def log(self):
        with open(os.path.join(self.folder, "log", "mainlog")) as file:
            return file.read()

    def close(self):
        if self.process:
            self.process.terminate()
            self.process.wait(timeout=10)
            self.process.stderr.close()
        # Deliveries under way are processes of their own, and write into the folder.
        end = time.monotonic() + 10
        while subprocess.run(["pgrep", "-f", self.config], capture_output=True).stdout and time.monotonic() < end:
            time.sleep(0.05)
        shutil.rmtree(self.folder)

    def __enter__(self):
        try:
            return self.start()
        except BaseException:
            self.close()
            raise

    def __exit__(self, *_):
        self.close()
