"""A fresh, migrated database on a private server, and the built command line."""
import os
import subprocess

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
BUILD = os.path.join(ROOT, os.environ.get("OUTBOX_BUILD", "build"))
CLI = os.path.join(BUILD, "src", "cli", "outbox")

TEMPLATE = "outbox_template"


def run_cli(*args, check=True, env=None, stdin=None, timeout=60):
    """Runs the built `outbox`; a failure shows its output. Returns subprocess.CompletedProcess with text."""
    command = [CLI] + [str(arg) for arg in args]
    done = subprocess.run(command, input=stdin, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
                          timeout=timeout, env={**os.environ, **(env or {})})
    if check and done.returncode != 0:
        raise AssertionError("%s: exit %d\n%s%s" % (" ".join(command), done.returncode, done.stdout, done.stderr))
    return done


class Database:
    """One database; the name is unique within its server."""

    def __init__(self, server, name):
        self.server = server
        self.name = name

    def url(self, user="postgres"):
        return self.server.url(self.name, user)

    def conninfo(self, user="postgres", **more):
        return self.server.conninfo(self.name, user, **more)

    def connect(self, user="postgres", autocommit=False, **more):
        import psycopg
        return psycopg.connect(self.conninfo(user, **more), autocommit=autocommit)

    def sql(self, text, *params, user="postgres"):
        """One statement in a transaction of its own; the rows, if it has any."""
        with self.connect(user, autocommit=True) as conn:
            cursor = conn.execute(text, params or None)
            return cursor.fetchall() if cursor.description else []

    def cli(self, command, *args, **options):
        return run_cli(command, "--store", self.url(), *args, **options)


def create_database(server, name, template=None):
    with_template = " TEMPLATE %s" % template if template else ""
    server.psql('CREATE DATABASE "%s"%s' % (name, with_template))
    return Database(server, name)


def drop_database(database):
    database.server.psql('DROP DATABASE IF EXISTS "%s" WITH (FORCE)' % database.name)


def create_template(server):
    """Migrates once; every test then copies the files, which is far cheaper than migrating again."""
    database = create_database(server, TEMPLATE)
    database.cli("migrate")
    return database


def copy_rows(conn, source, target=None, where="true", **changes):
    """Copies rows of an outbox table, with some columns changed: for the past that no test can wait for. It knows no more
    of the table than the columns named."""
    import json
    text = json.dumps({name: str(value) if value is not None else None for name, value in changes.items()})
    conn.execute("INSERT INTO outbox.%s SELECT (jsonb_populate_record(x, %%s::jsonb)).* FROM outbox.%s x WHERE %s"
                 % (target or source, source, where), (text,))
