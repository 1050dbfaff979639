"""Rights: every forbidden thing is tried, by a real login role, and refused.

What each role may do is written down here once more, and everything else that the catalog knows is tried: a table, a
view or a function that somebody adds is forbidden to all until it stands in this file.

Proves: S3 S5 S6 V1.
"""
import itertools

import psycopg
import pytest

from support import database
from support.roles import GROUPS, attempt, login_name, people, refused

LISTING = {"log_depth"} | {"listing_" + part for part in ("message", "queue", "log", "window", "dead", "discarded")}  # what a list begins with
TAIL = {"tail_" + part for part in ("message", "facts", "attempt", "dead", "act")}  # what happens
VIEWS = {"messages", "queued", "attempts", "dead_letters", "acts", "error_groups"} | LISTING | TAIL
SETTINGS = {"pause", "pauses", "namespace", "lane", "relay", "tuning", "relays", "sinks", "tunings", "series"}
TOKENS = {"tokens"}
RECORD = {"message", "queue", "attempt", "dead", "dedupe", "act", "hook", "hook_failure", "period", "log_window"}

MAY_READ = {
    "producer": set(),
    "relay": VIEWS | SETTINGS | {"status", "outbox", "window_messages"},
    "operator": VIEWS | SETTINGS | TOKENS | RECORD | {"status", "outbox", "stream"},
    "auditor": VIEWS | SETTINGS | TOKENS | RECORD | {"status", "outbox"},
    "tenant": VIEWS,
    "outsider": set(),
}
EXPLAIN = {"explain", "explain_missing", "obstacles", "head_of", "relay_alive", "groups", "group_candidates", "sinks_of"}
REPORT = {"wanted_rights", "wanted_owner", "wrong_rights", "wrong_log", "handed_out", "cluster_id", "topics", "waiting_keys"} | EXPLAIN
MAY_CALL = {
    "producer": {"enqueue", "enqueue_bytes", "enqueue_many"},
    "relay": {"claim", "take", "confirm_window", "settle", "settle_window", "rebase", "log_range", "ack", "nack", "release", "extend", "purge", "run_failed_hooks", "as_json", "doorbell_class", "record_history", "dead_news", "tell_news",
              "doorbell_channel", "current_tenant", "sees_all", "uuid_at", "ten_seconds_of", "like_of", "xid_at", "beat", "gauges", "check_token"} | REPORT,
    "operator": {"retry", "discard", "operate", "pause", "resume", "configure", "assign_doorbell", "purge", "erase_tenant",
                 "erase_subject", "hook", "unhook", "run_failed_hooks", "doorbell_channel", "current_tenant", "sees_all", "uuid_at", "ten_seconds_of", "like_of", "xid_at",
                 "tune", "gauges", "rebase", "create_token", "revoke_token"} | REPORT,
    "auditor": {"current_tenant", "sees_all", "uuid_at", "ten_seconds_of", "like_of", "xid_at", "gauges"} | REPORT,
    "tenant": {"current_tenant", "sees_all", "uuid_at", "ten_seconds_of", "like_of", "xid_at", "handed_out", "cluster_id"} | EXPLAIN,
    "outsider": set(),
}
NO_SUCH_WRITE = ("55000", "428C9")  # a view that cannot be written to, by whomever
EVERYBODY = list(GROUPS) + ["outsider"]

RELATIONS = """
    SELECT c.relname, c.relkind, (SELECT a.attname FROM pg_attribute a WHERE a.attrelid = c.oid AND a.attnum > 0
           AND a.attidentity = '' ORDER BY a.attnum LIMIT 1)
      FROM pg_class c
     WHERE c.relnamespace = 'outbox'::regnamespace AND c.relkind IN ('r', 'p', 'v', 'm', 'f') AND c.relname <> 'migration'
     ORDER BY 1"""
FUNCTIONS = """
    SELECT p.oid, p.proname, p.oid::regprocedure::text, format('SELECT outbox.%I(%s)', p.proname,
           (SELECT string_agg(format('NULL::%s', t::regtype), ', ' ORDER BY o)
              FROM unnest(p.proargtypes) WITH ORDINALITY u(t, o)))
      FROM pg_proc p WHERE p.pronamespace = 'outbox'::regnamespace ORDER BY 2"""


@pytest.fixture(scope="module")
def shared(pg_server, pg_template):
    """One outbox for all attempts of this file: none of them may change it."""
    db = database.create_database(pg_server, "rights", pg_template.name)
    with db.connect() as conn:
        conn.execute("SELECT outbox.enqueue('t', '1', key => 'k', dedupe_key => 'd')")
        conn.execute("SELECT outbox.enqueue('t', '2', max_attempts => 1)")
        conn.execute("SELECT outbox.nack(ARRAY[id], ARRAY[token], ARRAY['no']) FROM outbox.claim('w', 2)")
        conn.execute("SELECT outbox.configure('n', 'max_attempts', '3')")
    people(db)
    yield db
    database.drop_database(db)


def contents(db):
    """Every row of every table, told apart by its text."""
    with db.connect() as conn:
        tables = [row[0] for row in conn.execute(RELATIONS) if row[1] == "r"]
        return {table: sorted(conn.execute('SELECT t::text FROM outbox."%s" t' % table).fetchall()) for table in tables}


@pytest.mark.parametrize("group", EVERYBODY)
def test_tables(shared, group):
    """S3 S5: nobody writes a table; each reads what it may, and nothing else. No TRUNCATE for anybody."""
    relations = shared.sql(RELATIONS)
    before, wrong, tried = contents(shared), [], 0
    with shared.connect(user=login_name(group)) as conn:
        for name, kind, column in relations:
            may_read = name in MAY_READ[group]
            code = attempt(conn, 'SELECT 1 FROM outbox."%s" LIMIT 1' % name)
            if code != (None if may_read else "42501"):
                wrong.append("SELECT %s: %s" % (name, code))
            writes = ['INSERT INTO outbox."%s" DEFAULT VALUES', 'UPDATE outbox."%%s" SET "%s" = NULL' % column,
                      'DELETE FROM outbox."%s"', 'SELECT 1 FROM outbox."%s" FOR UPDATE']
            if kind != "v":
                writes += ['TRUNCATE outbox."%s"', 'LOCK TABLE outbox."%s" IN SHARE MODE',
                           'DROP TABLE outbox."%s"', 'ALTER TABLE outbox."%s" DISABLE ROW LEVEL SECURITY',
                           'ALTER TABLE outbox."%s" DISABLE TRIGGER ALL']
            for write in writes:
                tried += 1
                code = attempt(conn, write % name)
                if code != "42501" and (kind != "v" or code not in NO_SUCH_WRITE):
                    wrong.append("%s: %s" % (write % name, code))
    assert not wrong
    assert tried > 150
    assert {name for name, _, _ in relations} >= MAY_READ[group]
    assert contents(shared) == before


@pytest.mark.parametrize("group", EVERYBODY)
def test_functions(shared, group):
    """S3 S5: each calls what it may. Everything else, with whatever arguments, is refused before it begins."""
    functions = shared.sql(FUNCTIONS)
    before, wrong = contents(shared), []
    with shared.connect(user=login_name(group)) as conn:
        for oid, name, signature, call in functions:
            if name in MAY_CALL[group]:
                if not conn.execute("SELECT has_function_privilege(%s::oid, 'execute')", (oid,)).fetchone()[0]:
                    wrong.append("%s is refused" % signature)
                continue
            code = attempt(conn, call)
            # A trigger function is refused by name even to its owner, so the privilege itself is looked at too.
            may = conn.execute("SELECT has_function_privilege(%s::oid, 'execute')", (oid,)).fetchone()[0]
            if may or code not in (("42501", "0A000") if name == "append_only" else ("42501",)):
                wrong.append("%s: %s" % (signature, code))
    assert not wrong
    assert {name for _, name, _, _ in functions} >= set.union(*MAY_CALL.values())
    assert contents(shared) == before


def test_schema_and_sequences(shared):
    """S5: nobody makes objects in the schema, or moves a sequence of its tables."""
    sequences = [row[0] for row in shared.sql(
        "SELECT relname FROM pg_class WHERE relnamespace = 'outbox'::regnamespace AND relkind = 'S'")]
    assert len(sequences) >= 4
    for group in EVERYBODY:
        with shared.connect(user=login_name(group)) as conn:
            for statement in ("CREATE TABLE outbox.mine (a int)", "CREATE VIEW outbox.mine AS SELECT 1",
                              "CREATE FUNCTION outbox.cardinality(uuid[]) RETURNS int LANGUAGE sql AS 'SELECT 1'",
                              "CREATE TYPE outbox.mine AS (a int)", "DROP SCHEMA outbox CASCADE",
                              "ALTER SCHEMA outbox RENAME TO other"):
                refused(conn, statement)
            for sequence in sequences:
                refused(conn, 'SELECT nextval(\'outbox."%s"\')' % sequence)
                refused(conn, 'SELECT setval(\'outbox."%s"\', 1)' % sequence)


def test_nobody_becomes_another(shared):
    """S3: the owner roles are nobody's to be, and do not log in."""
    for group, role in itertools.product(EVERYBODY, ("owner", "api", "hooks", "nobody") + GROUPS):
        if group == role:
            continue
        with shared.connect(user=login_name(group)) as conn:
            refused(conn, "SET ROLE outbox_%s" % role)
    assert shared.sql("SELECT rolname FROM pg_roles WHERE rolname LIKE 'outbox\\_%%' AND (rolcanlogin OR rolsuper OR "
                      "rolbypassrls OR rolcreaterole OR rolcreatedb)") == []
    for role in ("owner", "api", "hooks", "nobody") + GROUPS:
        with pytest.raises(psycopg.OperationalError, match="not permitted to log in"):
            shared.connect(user="outbox_" + role)
    assert shared.sql("SELECT r.rolname, m.rolname FROM pg_auth_members a JOIN pg_roles r ON r.oid = a.roleid JOIN "
                      "pg_roles m ON m.oid = a.member WHERE r.rolname IN ('outbox_owner', 'outbox_api', "
                      "'outbox_hooks') OR m.rolname LIKE 'outbox\\_%%'") == []


# ---- what the catalog says -------------------------------------------------------------------------------------------


def test_public_has_nothing(shared):
    """S5: no privilege of PUBLIC on the schema, or on anything in it that can be read, changed or called. The list of
    applied migrations may be read by whoever may look into the schema."""
    relations = shared.sql("""
        SELECT c.relname, a.privilege_type FROM pg_class c, aclexplode(coalesce(c.relacl, acldefault(
               CASE c.relkind WHEN 'S' THEN 's'::"char" ELSE 'r' END, c.relowner))) a
         WHERE c.relnamespace = 'outbox'::regnamespace AND c.relkind NOT IN ('i', 'I', 'c') AND a.grantee = 0""")
    assert set(relations) <= {("migration", "SELECT")}
    assert shared.sql("""
        SELECT p.proname FROM pg_proc p, aclexplode(coalesce(p.proacl, acldefault('f', p.proowner))) a
         WHERE p.pronamespace = 'outbox'::regnamespace AND a.grantee = 0""") == []
    assert shared.sql("""
        SELECT a.privilege_type FROM pg_namespace n, aclexplode(coalesce(n.nspacl, acldefault('n', n.nspowner))) a
         WHERE n.nspname = 'outbox' AND a.grantee = 0""") == []


def test_rights_are_given_to_roles_of_the_outbox_only(shared):
    """S5: no grant option, no grant to anybody else, none to the role that calls hooks."""
    grants = shared.sql("""
        WITH acl AS (
            SELECT c.relname AS name, a.* FROM pg_class c, aclexplode(c.relacl) a
             WHERE c.relnamespace = 'outbox'::regnamespace AND c.relname <> 'migration' AND a.grantee <> c.relowner
            UNION ALL
            SELECT p.proname, a.* FROM pg_proc p, aclexplode(p.proacl) a
             WHERE p.pronamespace = 'outbox'::regnamespace AND a.grantee <> p.proowner)
        SELECT name, pg_get_userbyid(grantee), privilege_type, is_grantable FROM acl""")
    assert {grantee for _, grantee, _, _ in grants} == {"outbox_" + name for name in GROUPS + ("api", "owner")}
    assert not [grant for grant in grants if grant[3]]
    assert shared.sql("""
        SELECT pg_get_userbyid(a.grantee) FROM pg_namespace n, aclexplode(n.nspacl) a
         WHERE n.nspname = 'outbox' AND a.privilege_type = 'CREATE' AND a.grantee <> n.nspowner""") == []
    assert shared.sql("SELECT nspowner::regrole::text FROM pg_namespace WHERE nspname = 'outbox'") == [("outbox_owner",)]
    assert shared.sql("SELECT has_schema_privilege('outbox_hooks', 'outbox', 'usage'), "
                      "has_schema_privilege('outbox_nobody', 'outbox', 'usage')") == [(False, False)]


def test_nobody_rewrites_the_record_by_privilege(shared):
    """S6: no role but the owner, as whom nobody logs in, has UPDATE, DELETE or TRUNCATE on attempts and acts."""
    assert shared.sql("""
        SELECT c.relname, pg_get_userbyid(a.grantee), a.privilege_type FROM pg_class c, aclexplode(c.relacl) a
         WHERE c.relnamespace = 'outbox'::regnamespace AND (c.relname LIKE 'attempt%%' OR c.relname = 'act')
           AND c.relkind IN ('r', 'p') AND a.grantee <> c.relowner AND a.privilege_type NOT IN ('SELECT', 'INSERT')""") == []
    assert {row[0] for row in shared.sql("SELECT DISTINCT pg_get_userbyid(relowner) FROM pg_class WHERE relkind IN "
                                         "('r', 'p') AND relnamespace = 'outbox'::regnamespace AND relname <> "
                                         "'migration'")} \
        == {"outbox_owner"}


def test_definers(shared):
    """S3: every SECURITY DEFINER function has a search_path that ends in pg_temp, names no schema that others may write
    to, and belongs to a role that nobody logs in as. A function that others call with their own rights in a view has a
    fixed search_path too. Two have none, and qualify every name instead: test_planted_names.py."""
    definers = shared.sql("""
        SELECT p.proname, r.rolname, r.rolcanlogin, (SELECT substr(c, 13) FROM unnest(p.proconfig) c
               WHERE c LIKE 'search_path=%%')
          FROM pg_proc p JOIN pg_roles r ON r.oid = p.proowner
         WHERE p.pronamespace = 'outbox'::regnamespace AND p.prosecdef""")
    assert len(definers) > 20
    for name, owner, can_login, path in definers:
        assert owner in ("outbox_api", "outbox_owner", "outbox_hooks", "outbox_nobody") and not can_login, name
        if name in ("enqueue", "enqueue_bytes"):
            assert path is None, name
            continue
        assert path and path.split(", ")[-1] == "pg_temp", name
        assert set(path.split(", ")[:-1]) <= {"outbox", "pg_catalog"}, name
    assert {name for name, owner, _, _ in definers if owner == "outbox_hooks"} == {"call_hook"}
    assert {name for name, owner, _, _ in definers if owner == "outbox_nobody"} == {"fire_deferred"}
    for name in ("sees_all", "current_tenant"):
        assert shared.sql("SELECT proconfig FROM pg_proc WHERE proname = %s AND pronamespace = 'outbox'::regnamespace",
                          name)[0][0], name


def test_api_writes_no_more_than_it_needs(shared):
    """S6: the role whose functions do the work cannot rewrite an attempt or an act either: tried as that role."""
    with shared.connect() as conn:
        conn.execute("SET ROLE outbox_api")
        for table in ("attempt", "attempt_default", "attempt_kept", "act"):
            for statement in ("UPDATE outbox.%s SET %s = NULL" % (table, "actor" if table == "act" else "worker"),
                              "DELETE FROM outbox.%s" % table, "TRUNCATE outbox.%s" % table):
                refused(conn, statement)
        refused(conn, "UPDATE outbox.message SET payload = '0'")
        refused(conn, "CREATE TABLE outbox.mine (a int)")


# ---- append-only -----------------------------------------------------------------------------------------------------


def test_append_only_holds_for_a_superuser(db):
    """S6: UPDATE, DELETE and TRUNCATE raise P0001, on the parent, on every partition, and on what is kept."""
    with db.connect() as conn:
        conn.execute("SELECT outbox.enqueue('t', '1')")
        conn.commit()
        conn.execute("SELECT outbox.nack(ARRAY[id], ARRAY[token], ARRAY['no']) FROM outbox.claim('w')")
        conn.execute("SELECT outbox.configure('n', 'max_attempts', '3')")
        # Rows of no partition, and of a message whose partition is gone.
        database.copy_rows(conn, "attempt",
                           message_id=conn.execute("SELECT outbox.uuid_at('2001-01-01')").fetchone()[0])
        conn.execute("INSERT INTO outbox.attempt_kept SELECT * FROM outbox.attempt")
        conn.commit()
        partitions = [row[0] for row in conn.execute("SELECT inhrelid::regclass::text FROM pg_inherits WHERE inhparent "
                                                     "= 'outbox.attempt'::regclass")]
        assert len(partitions) >= 3 and "outbox.attempt_default" in partitions
        for table in ["outbox.attempt", "outbox.attempt_kept"] + partitions:
            rows = conn.execute("SELECT count(*) FROM %s" % table).fetchone()[0]
            if rows:
                refused(conn, "UPDATE %s SET error = 'all was well'" % table, code="P0001")
                refused(conn, "DELETE FROM %s" % table, code="P0001")
            refused(conn, "TRUNCATE %s" % table, code="P0001")
        filled = [t for t in partitions if conn.execute("SELECT count(*) FROM %s" % t).fetchone()[0]]
        assert len(filled) == 2, "one partition of today and the default one"
        refused(conn, "UPDATE outbox.act SET actor = 'somebody else'", code="P0001")
        refused(conn, "DELETE FROM outbox.act", code="P0001")
        refused(conn, "TRUNCATE outbox.act", code="P0001")
        refused(conn, "TRUNCATE outbox.message, outbox.attempt CASCADE", code="P0001")
        # No setting opens the door.
        conn.execute("SET outbox.append_only = off")
        refused(conn, "DELETE FROM outbox.act", code="P0001")
        # An attempt number never repeats.
        refused(conn, "INSERT INTO outbox.attempt SELECT * FROM outbox.attempt", code="23505")


def test_append_only_holds_for_partitions_made_later(db):
    """S6 S4: purge makes them with the guard in place."""
    with db.connect() as conn:
        conn.execute("SELECT outbox.enqueue('t', '1')")
        conn.commit()
        conn.execute("SELECT outbox.nack(ARRAY[id], ARRAY[token], ARRAY['no']) FROM outbox.claim('w')")
        conn.execute("SELECT outbox.configure('*', 'partition_width', '400 days')")
        conn.execute("SELECT outbox.purge()")
        made = conn.execute("SELECT 'outbox.attempt_' || suffix, start FROM outbox.period ORDER BY start DESC").fetchone()
        database.copy_rows(conn, "attempt",
                           message_id=conn.execute("SELECT outbox.uuid_at(%s)", (made[1],)).fetchone()[0])
        assert conn.execute("SELECT count(*) FROM %s" % made[0]).fetchone() == (1,)
        refused(conn, "UPDATE %s SET error = ''" % made[0], code="P0001")
        refused(conn, "DELETE FROM %s" % made[0], code="P0001")
        refused(conn, "TRUNCATE %s" % made[0], code="P0001")
