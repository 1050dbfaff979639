"""An outbox in an SQLite file, seen as a producer of any language sees it: through a plain connection."""
import os
import sqlite3
import subprocess

import pytest

from support.database import BUILD, run_cli

ACTOR = os.path.join(BUILD, "tests", "system", "sqlite_actor")

needs_sqlite = pytest.mark.skipif(not os.path.exists(ACTOR), reason="this build has no SQLite store")


class Outbox:
    def __init__(self, path):
        self.path = str(path)

    @classmethod
    def create(cls, path):
        run_cli("init", "--store", "sqlite:%s" % path)
        return cls(path)

    def connect(self, timeout=10.0):
        """A producer's connection; transactions are the caller's."""
        return sqlite3.connect(self.path, timeout=timeout, isolation_level=None)

    def sql(self, text, *params):
        """One statement on a connection of its own; the rows."""
        conn = self.connect()
        try:
            return conn.execute(text, params).fetchall()
        finally:
            conn.close()

    def value(self, text, *params):
        return self.sql(text, *params)[0][0]

    def cli(self, command, *args, **options):
        return run_cli(command, "--store", "sqlite:" + self.path, *args, **options)

    def actor(self, verb, *args, check=True, timeout=60, program=ACTOR, **options):
        done = subprocess.run([program, verb, self.path, *map(str, args)], stdout=subprocess.PIPE, stderr=subprocess.PIPE,
                              text=True, timeout=timeout, **options)
        if check and done.returncode != 0:
            raise AssertionError("%s: exit %d\n%s%s" % (verb, done.returncode, done.stdout, done.stderr))
        return done

    def start(self, verb, *args, **options):
        return subprocess.Popen([ACTOR, verb, self.path, *map(str, args)], stdin=subprocess.PIPE, stdout=subprocess.PIPE,
                                stderr=subprocess.PIPE, text=True, **options)

    def dump(self):
        """Everything in the file but the enqueue's scratch pad, which answers for duplicates."""
        conn = self.connect()
        tables = [row[0] for row in conn.execute("SELECT name FROM sqlite_schema WHERE type = 'table' AND name NOT LIKE"
                                                 " 'sqlite_%' AND name <> 'outbox_duplicate' ORDER BY name")]
        content = {table: conn.execute('SELECT * FROM "%s"' % table).fetchall() for table in tables}
        conn.close()
        return content

    def check_sound(self):
        """The file is whole, and so is the order of its queue."""
        conn = self.connect()
        assert conn.execute("PRAGMA integrity_check").fetchall() == [("ok",)]
        assert conn.execute("PRAGMA foreign_key_check").fetchall() == []
        parked_heads = conn.execute(
            "SELECT q.sid, min(q.seq) FROM outbox_queue q WHERE q.sid IS NOT NULL GROUP BY q.sid"
            " HAVING (SELECT x.state FROM outbox_queue x WHERE x.sid = q.sid ORDER BY x.seq LIMIT 1) = 2").fetchall()
        assert parked_heads == []
        assert conn.execute("SELECT count(*) FROM outbox_event").fetchone() == (0,)
        assert conn.execute("SELECT count(*) FROM outbox_gate").fetchone() == (0,)
        conn.close()
