"""A private PostgreSQL server for tests: own data, own socket, own port, gone at the end.

Standard library only, because tools/test uses it too. PostgreSQL refuses to run as root: then the server runs as the
user `postgres`. The server is told to stop when the process that started it dies, however that happens.
"""
import glob
import os
import pwd
import random
import shutil
import signal
import socket
import subprocess
import tempfile
import time

START_TIMEOUT = 60


class PgError(RuntimeError):
    pass


def find_bindir():
    """The newest PostgreSQL server on this machine that we test on; OUTBOX_PG_BINDIR overrides."""
    if os.environ.get("OUTBOX_PG_BINDIR"):
        return os.environ["OUTBOX_PG_BINDIR"]
    found = glob.glob("/usr/lib/postgresql/*/bin/initdb")
    wanted = sorted(found, key=lambda path: (path.split("/")[4] == "15", int(path.split("/")[4])))
    if wanted:
        return os.path.dirname(wanted[-1])
    in_path = shutil.which("initdb")
    return os.path.dirname(in_path) if in_path else None


def free_port():
    """Below the ports that the kernel gives to outgoing connections: one of those would be taken again at any moment while
    a slow server starts."""
    while True:
        port = random.SystemRandom().randrange(12000, 32000)
        with socket.socket() as sock:
            try:
                sock.bind(("127.0.0.1", port))
                return port
            except OSError:
                continue


def child_pids(parent):
    children = []
    for path in glob.glob("/proc/[0-9]*/stat"):
        try:
            with open(path) as file:
                text = file.read()
        except OSError:
            continue
        # The name in parentheses may hold anything; the fields after it do not.
        if int(text.rsplit(")", 1)[1].split()[1]) == parent:
            children.append(int(path.split("/")[2]))
    return children


class PgServer:
    """with PgServer() as server: psycopg.connect(server.conninfo())

    fsync=False is fast and for tests of behaviour; fsync=True is for tests that cut the power. `settings` go on the
    server's command line."""

    def __init__(self, fsync=False, settings=None, keep=False, initdb_args=()):
        self.bindir = find_bindir()
        if not self.bindir:
            raise PgError("no PostgreSQL server found: run tools/deps test")
        self.keep = keep
        self.process = None
        self.initdb_args = list(initdb_args)
        self.port = free_port()
        self.settings = {
            "listen_addresses": "127.0.0.1",
            "max_connections": "200",
            "max_prepared_transactions": "20",
            "shared_buffers": "64MB",
            "fsync": "on" if fsync else "off",
            "synchronous_commit": "on",
            "full_page_writes": "on" if fsync else "off",
            "autovacuum_naptime": "5s",
            "log_line_prefix": "%m [%p] %u@%d ",
            "log_min_messages": "warning",
            "timezone": "UTC",
            "jit": "off",
        }
        self.settings.update(settings or {})
        # Short, because the path of a unix socket may have 107 bytes only.
        place = tempfile.gettempdir()
        self.folder = tempfile.mkdtemp(prefix="ob-pg-", dir=place if len(place) < 60 else "/tmp")
        self.data = os.path.join(self.folder, "data")
        self.log = os.path.join(self.folder, "server.log")
        if os.geteuid() == 0:
            user = pwd.getpwnam("postgres")
            os.chown(self.folder, user.pw_uid, user.pw_gid)
        os.chmod(self.folder, 0o755)
        try:
            self._initdb()
        except BaseException:
            self._remove()
            raise

    # ---- running things --------------------------------------------------------------------------------------------

    def _as_owner(self):
        """The front of a command line that must not run as root."""
        if os.geteuid() == 0:
            return ["setpriv", "--reuid=postgres", "--regid=postgres", "--clear-groups"]
        return []

    def _initdb(self):
        command = self._as_owner() + [
            os.path.join(self.bindir, "initdb"), "-D", self.data, "-U", "postgres", "-A", "trust", "-E", "UTF8",
            "--locale=C.UTF-8", "--no-sync", "--no-instructions",
        ] + self.initdb_args
        done = subprocess.run(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, cwd="/")
        if done.returncode != 0:
            raise PgError("initdb failed:\n" + done.stdout)

    def start(self):
        assert self.process is None, "started already"
        command = ["setpriv", "--pdeathsig", "QUIT"] + self._as_owner()[1:] + [
            os.path.join(self.bindir, "postgres"), "-D", self.data, "-p", str(self.port), "-k", self.folder,
        ]
        for name, value in self.settings.items():
            command += ["-c", "%s=%s" % (name, value)]
        log = open(self.log, "ab")
        try:
            self.process = subprocess.Popen(
                command, stdin=subprocess.DEVNULL, stdout=log, stderr=log, cwd="/", start_new_session=True)
        finally:
            log.close()
        self._wait_ready()
        return self

    def _wait_ready(self):
        """postmaster.pid says "ready" in its eighth line once connections are let in."""
        pidfile = os.path.join(self.data, "postmaster.pid")
        deadline = time.monotonic() + START_TIMEOUT
        while time.monotonic() < deadline:
            if self.process.poll() is not None:
                status, self.process = self.process.returncode, None
                raise PgError("the server ended with %s:\n%s" % (status, self.read_log()))
            try:
                with open(pidfile) as file:
                    lines = file.read().split("\n")
            except OSError:
                lines = []
            if len(lines) > 7 and lines[0] == str(self.process.pid) and lines[7].strip() == "ready":
                return
            time.sleep(0.01)
        self.stop("immediate")
        raise PgError("the server did not start in %d s:\n%s" % (START_TIMEOUT, self.read_log()))

    def check_alive(self):
        """A server that ended by itself is an error, not one more failure that clients must bear."""
        if self.process and self.process.poll() is not None:
            raise PgError("the server ended with %s:\n%s" % (self.process.returncode, self.read_log()[-8000:]))

    def wait_recovered(self):
        """After a backend was killed with SIGKILL the server restarts itself: returns when it lets clients in again."""
        deadline = time.monotonic() + START_TIMEOUT
        command = [os.path.join(self.bindir, "pg_isready"), "-q", "-h", self.folder, "-p", str(self.port)]
        while subprocess.run(command).returncode != 0:
            if time.monotonic() > deadline:
                raise PgError("the server did not recover:\n" + self.read_log())
            time.sleep(0.01)

    def stop(self, mode="fast"):
        """smart: waits for clients; fast: throws them out; immediate: as in a crash; kill: SIGKILL of the postmaster."""
        if self.process is None:
            return
        number = {"smart": signal.SIGTERM, "fast": signal.SIGINT, "immediate": signal.SIGQUIT, "kill": signal.SIGKILL}
        children = child_pids(self.process.pid)
        if self.process.poll() is None:
            self.process.send_signal(number[mode])
            try:
                self.process.wait(60)
            except subprocess.TimeoutExpired:
                self.process.kill()
                self.process.wait()
        self._wait_gone(children)
        self.process = None

    @staticmethod
    def _wait_gone(pids):
        """After SIGKILL backends notice by themselves; a new server cannot start before the last of them is gone."""
        deadline = time.monotonic() + START_TIMEOUT
        while any(os.path.exists("/proc/%d" % pid) for pid in pids):
            if time.monotonic() > deadline:
                raise PgError("backends outlived their postmaster")
            time.sleep(0.01)

    def restart(self, mode="fast"):
        self.stop(mode)
        return self.start()

    @staticmethod
    def kill_backend(pid):
        """SIGKILL of one backend: every other one is thrown out and the server goes through crash recovery."""
        os.kill(pid, signal.SIGKILL)

    # ---- addresses -------------------------------------------------------------------------------------------------

    def conninfo(self, dbname="postgres", user="postgres", **more):
        """Over the unix socket."""
        pairs = {"host": self.folder, "port": self.port, "user": user, "dbname": dbname, **more}
        return " ".join("%s=%s" % pair for pair in pairs.items())

    def url(self, dbname="postgres", user="postgres"):
        """Over TCP."""
        return "postgresql://%s@127.0.0.1:%d/%s" % (user, self.port, dbname)

    def psql(self, sql, dbname="postgres", user="postgres"):
        """Runs one statement or a script; returns the unaligned output. For tests that cannot import psycopg."""
        command = [os.path.join(self.bindir, "psql"), "-X", "-q", "-A", "-t", "-v", "ON_ERROR_STOP=1",
                   self.conninfo(dbname, user)]
        done = subprocess.run(command, input=sql, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
        if done.returncode != 0:
            raise PgError(done.stderr.strip())
        return done.stdout.strip()

    # ---- the end ---------------------------------------------------------------------------------------------------

    def read_log(self):
        try:
            with open(self.log, errors="replace") as file:
                return file.read()
        except OSError:
            return ""

    def _remove(self):
        if not self.keep:
            shutil.rmtree(self.folder, ignore_errors=True)

    def close(self):
        """Stops without ceremony and removes everything, unless keep is set."""
        try:
            self.stop("immediate")
        finally:
            self._remove()

    def __enter__(self):
        try:
            return self.start()
        except BaseException:
            self.close()
            raise

    def __exit__(self, *_):
        self.close()
