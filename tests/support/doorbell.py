"""A relay's doorbell on a string (tests/stress/doorbell_driver.c), what the server knows of it, and a pooler in between."""
import os
import shutil
import signal
import socket
import subprocess
import tempfile
import threading
import time

from support.database import BUILD
from support.pgserver import free_port

DRIVER = os.path.join(BUILD, "tests", "stress", "doorbell_driver")
PATIENCE = 30  # seconds until a test that waits gives up


def eventually(ask, what):
    """The first true answer. Polls, because the server has no other way to tell."""
    deadline = time.monotonic() + PATIENCE
    while time.monotonic() < deadline:
        answer = ask()
        if answer:
            return answer
        time.sleep(0.002)
    raise AssertionError("did not happen: " + what)


class Bell:
    """with Bell(db) as doorbell: assert doorbell.wait(1000)[0] == "rang"

    Small windows, so that a test is busy and calm again within a blink."""

    def __init__(self, db, conninfo=None, **settings):
        self.db = db
        settings = {"window_ms": 50, **settings}
        self.process = subprocess.Popen(
            [DRIVER, conninfo or db.conninfo()] + ["%s=%d" % pair for pair in settings.items()], text=True, bufsize=1,
            stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE)
        self.log = []
        self.reader = threading.Thread(target=lambda: self.log.extend(self.process.stderr), daemon=True)
        self.reader.start()

    def tell(self, line):
        self.process.stdin.write(line + "\n")

    def hear(self):
        return self.process.stdout.readline().strip()

    def ask(self, line):
        self.tell(line)
        answer = self.hear()
        assert not answer.startswith("error"), answer
        return answer

    def wait(self, ms):
        """(why it woke, its state, after how many ms)"""
        look, state, took = self.ask("wait %d" % ms).split()
        return look, state, int(took)

    def until(self, state, ms=PATIENCE * 1000):
        """The looks on the way there."""
        answer = self.ask("until %s %d" % (state, ms)).split(" ")
        assert answer[0] == state, "%s, not %s\n%s" % (answer, state, "".join(self.log))
        return answer[1].split(",") if len(answer) > 1 and answer[1] else []

    def claimed(self, count, full=False, filtered=False):
        return self.ask("claimed %d %s %s" % (count, "full" if full else "part", "some" if filtered else "all"))

    def sleep(self):
        """Opens, and takes the first look, or more if somebody writes just now."""
        looks = self.until("calm")
        assert set(looks) == {"fence"}, looks

    def get_busy(self, state="held"):
        self.claimed(100000)
        self.until(state)

    def backend(self):
        """The server's process on the other end."""
        return eventually(lambda: self.db.sql(
            "select max(pid) from pg_stat_activity where application_name = 'doorbell_driver doorbell' "
            "and datname = current_database()")[0][0], "the doorbell is connected")

    def kill(self):
        self.process.kill()
        self.process.wait()

    def close(self):
        if self.process.poll() is None:
            self.process.stdin.close()
            try:
                self.process.wait(PATIENCE)
            except subprocess.TimeoutExpired:
                self.kill()
        self.reader.join(PATIENCE)
        self.process.stdout.close()
        self.process.stderr.close()

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.close()


def locks(db, granted, doorbell=0):
    """The processes that hold the doorbell's lock exclusively, or wait for it."""
    rows = db.sql("select pid from pg_locks where locktype = 'advisory' and mode = 'ExclusiveLock' and granted = %s "
                  "and objid = %s and classid::bigint = 'outbox.queue'::regclass::oid::bigint and database = "
                  "(select oid from pg_database where datname = current_database()) order by pid", granted, doorbell)
    return [row[0] for row in rows]


class Pooler:
    """pgbouncer in front of a database, pooling transactions or sessions."""

    def __init__(self, db, mode):
        self.program = shutil.which("pgbouncer", path=os.environ["PATH"] + ":/usr/sbin")
        self.folder = tempfile.mkdtemp(prefix="ob-bouncer-")
        self.port = free_port()
        self.db = db
        with open(os.path.join(self.folder, "users"), "w") as file:
            file.write('"postgres" ""\n')
        with open(os.path.join(self.folder, "ini"), "w") as file:
            file.write("[databases]\n%s = host=127.0.0.1 port=%d user=postgres\n[pgbouncer]\nlisten_addr = 127.0.0.1\n"
                       "listen_port = %d\nunix_socket_dir =\nauth_type = any\nauth_file = %s/users\npool_mode = %s\n"
                       "ignore_startup_parameters = extra_float_digits\n"
                       % (db.name, db.server.port, self.port, self.folder, mode))
        os.chmod(self.folder, 0o755)

    def __enter__(self):
        as_user = ["--reuid=postgres", "--regid=postgres", "--clear-groups"] if os.geteuid() == 0 else []
        command = ["setpriv", "--pdeathsig", "TERM"] + as_user + [self.program, "-q", os.path.join(self.folder, "ini")]
        self.process = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, cwd="/")
        eventually(self.answers, "the pooler answers")
        return self

    def answers(self):
        with socket.socket() as sock:
            return sock.connect_ex(("127.0.0.1", self.port)) == 0

    def conninfo(self):
        return "host=127.0.0.1 port=%d user=postgres dbname=%s" % (self.port, self.db.name)

    def __exit__(self, *_):
        self.process.send_signal(signal.SIGTERM)
        self.process.wait(PATIENCE)
        shutil.rmtree(self.folder)
