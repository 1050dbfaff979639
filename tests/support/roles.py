"""People: real LOGIN roles, one for each group role of the outbox, and what it takes to see them refused.

    people = roles.people(db)
    with people.connect("producer") as conn: ...
    refused(conn, "SELECT * FROM outbox.queue")            # 42501, and the transaction goes on
"""
import psycopg

GROUPS = ("producer", "relay", "operator", "auditor", "tenant")
NO_RIGHT = "42501"


def login_name(group):
    """The role that logs in for a group; `outsider` is in none."""
    return "person_" + group


def people(db, groups=GROUPS + ("outsider",)):
    """Makes the roles, which belong to the whole server, unless they are there."""
    with db.connect(autocommit=True) as conn:
        for group in groups:
            name = login_name(group)
            if not conn.execute("SELECT 1 FROM pg_roles WHERE rolname = %s", (name,)).fetchone():
                conn.execute('CREATE ROLE "%s" LOGIN' % name)
            if group in GROUPS:
                conn.execute('GRANT "outbox_%s" TO "%s"' % (group, name))
    return People(db)


class People:
    def __init__(self, db):
        self.db = db

    def connect(self, group, tenant=None, **options):
        conn = self.db.connect(user=login_name(group), **options)
        if tenant:
            conn.execute("SELECT set_config('app.current_tenant_id', %s, false)", (str(tenant),))
            if not conn.autocommit:
                conn.commit()
        return conn


class NotRefused(AssertionError):
    pass


def attempt(conn, statement, params=None):
    """Tries a statement and undoes it. The SQLSTATE it met, or None."""
    try:
        with conn.transaction(force_rollback=True):
            conn.execute(statement, params)
    except psycopg.Error as error:
        if error.sqlstate is None:
            raise
        return error.sqlstate
    return None


def refused(conn, statement, params=None, code=NO_RIGHT):
    """The statement meets just this SQLSTATE."""
    met = attempt(conn, statement, params)
    if met != code:
        raise NotRefused("%s met %s, not %s: %s" % (conn.info.user, met or "no refusal", code, statement))


def error_of(conn, statement, params=None):
    """The error that a statement meets: its diagnostics. Leaves the transaction usable."""
    try:
        with conn.transaction():
            conn.execute(statement, params)
    except psycopg.Error as error:
        return error.diag
    raise NotRefused("met no error: %s" % statement)
