"""PostgreSQL servers for what happens to databases: a standby of another server, and a server whose disk is small."""
import os
import pwd
import subprocess

from support.pgserver import PgError, PgServer


class Standby(PgServer):
    """Follows another server, which is running; `promote` makes it a server of its own."""

    def __init__(self, primary):
        self.primary = primary
        super().__init__(fsync=True)

    def _initdb(self):
        command = self._as_owner() + [os.path.join(self.bindir, "pg_basebackup"), "-D", self.data, "-h",
                                      self.primary.folder, "-p", str(self.primary.port), "-U", "postgres", "-R", "-X",
                                      "stream", "-c", "fast"]
        done = subprocess.run(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, cwd="/")
        if done.returncode != 0:
            raise PgError("pg_basebackup failed:\n" + done.stdout)

    def follows(self):
        """The primary waits for it with every commit."""
        return self.primary.psql("SELECT sync_state FROM pg_stat_replication") == "sync"

    def promote(self):
        self.psql("SELECT pg_promote()")


class SmallDisk(PgServer):
    """Its data lie on a disk of so many MiB, its log of writes elsewhere: when the disk is full, statements fail and the
    server lives on. Only root can have one: mounting may be refused with PermissionError."""

    def __init__(self, size):
        self.size = size
        self.mounted = None
        super().__init__(settings={"shared_buffers": "16MB", "wal_recycle": "off"})

    def _initdb(self):
        if os.geteuid() != 0:
            raise PermissionError("only root can mount")
        disk = os.path.join(self.folder, "disk")
        os.mkdir(disk)
        done = subprocess.run(["mount", "-t", "tmpfs", "-o", "size=%dm" % self.size, "outbox-test", disk],
                              stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
        if done.returncode != 0:
            raise PermissionError(done.stdout.strip())
        self.mounted = disk
        user = pwd.getpwnam("postgres")
        os.chown(disk, user.pw_uid, user.pw_gid)
        self.data = os.path.join(disk, "data")
        self.initdb_args = ["--waldir", os.path.join(self.folder, "wal")]
        super()._initdb()

    def fill(self):
        """Takes all that is left."""
        with open(os.path.join(self.mounted, "filler"), "wb", buffering=0) as file:
            for size in (1 << 20, 4096, 1):
                try:
                    while True:
                        file.write(bytes(size))
                except OSError:
                    pass

    def free(self):
        os.unlink(os.path.join(self.mounted, "filler"))

    def _remove(self):
        if self.mounted:
            subprocess.run(["umount", self.mounted], check=True)
            self.mounted = None
        super()._remove()
