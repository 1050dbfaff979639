"""Rights that nobody meant to give: default privileges, and what came after the migration.

Proves: S3 S5 (each role has its rights, and nobody else has any), V1.
"""
import pytest

from support import database
from support.roles import NO_RIGHT, attempt

GIFTS = [
    "ALTER DEFAULT PRIVILEGES GRANT ALL ON TABLES TO friend, PUBLIC",
    "ALTER DEFAULT PRIVILEGES GRANT ALL ON SEQUENCES TO friend WITH GRANT OPTION",
    "ALTER DEFAULT PRIVILEGES GRANT ALL ON FUNCTIONS TO friend",
    "ALTER DEFAULT PRIVILEGES GRANT ALL ON TYPES TO friend",
    "ALTER DEFAULT PRIVILEGES GRANT ALL ON SCHEMAS TO friend",
]

RIGHTS_OF_OTHERS = """
    SELECT 'relation', c.relname, a.privilege_type FROM pg_class c, aclexplode(c.relacl) a
     WHERE c.relnamespace = 'outbox'::regnamespace AND pg_get_userbyid(a.grantee) NOT LIKE 'outbox\\_%%'
    UNION ALL
    SELECT 'function', p.proname, a.privilege_type FROM pg_proc p, aclexplode(coalesce(p.proacl, acldefault('f', p.proowner))) a
     WHERE p.pronamespace = 'outbox'::regnamespace AND (a.grantee = 0 OR pg_get_userbyid(a.grantee) NOT LIKE 'outbox\\_%%')
    UNION ALL
    SELECT 'type', t.typname, a.privilege_type FROM pg_type t, aclexplode(t.typacl) a
     WHERE t.typnamespace = 'outbox'::regnamespace AND a.grantee <> 0 AND pg_get_userbyid(a.grantee) NOT LIKE 'outbox\\_%%'
    UNION ALL
    SELECT 'schema', n.nspname, a.privilege_type FROM pg_namespace n, aclexplode(n.nspacl) a
     WHERE n.nspname = 'outbox' AND pg_get_userbyid(a.grantee) NOT LIKE 'outbox\\_%%'"""


@pytest.fixture
def friend(pg_server):
    pg_server.psql("CREATE ROLE friend LOGIN")
    yield "friend"
    pg_server.psql("DROP OWNED BY friend; DROP ROLE friend")


def test_default_privileges(pg_server, empty_db, friend):
    """S5: whatever new objects are given by default, those of the outbox are not; nor the partitions that come later."""
    for gift in GIFTS:
        empty_db.sql(gift)
    empty_db.cli("migrate")
    empty_db.sql("ALTER DEFAULT PRIVILEGES FOR ROLE outbox_owner GRANT ALL ON TABLES TO friend")
    try:
        assert empty_db.sql(RIGHTS_OF_OTHERS) == []
        empty_db.sql("DELETE FROM outbox.period")
        empty_db.sql("SET ROLE outbox_owner; SELECT outbox.make_period('2040-01-01', '2040-01-02')")
        assert empty_db.sql("SELECT count(*) FROM pg_class WHERE relname LIKE '%%20400101%%' AND relkind = 'r'") == [(2,)]
        assert empty_db.sql(RIGHTS_OF_OTHERS) == []
        assert empty_db.sql("SELECT * FROM outbox.wrong_rights()") == []
        with empty_db.connect(user=friend) as conn:
            for statement in ("SELECT FROM outbox.queue", "TRUNCATE outbox.queue", "SELECT outbox.purge()"):
                assert attempt(conn, statement) == NO_RIGHT
    finally:
        database.drop_database(empty_db)


CHANGES = {
    "GRANT SELECT ON outbox.dead TO friend": ("friend has the right SELECT on the table outbox.dead",
                                              "revoke SELECT on table outbox.dead from friend cascade"),
    "GRANT UPDATE (error) ON outbox.attempt TO PUBLIC": ("PUBLIC has the right UPDATE on the column error of outbox.attempt",
                                                         "revoke UPDATE (error) on outbox.attempt from public cascade"),
    "GRANT EXECUTE ON FUNCTION outbox.fire TO friend WITH GRANT OPTION": (
        "friend has the right EXECUTE on the routine outbox.fire", "revoke EXECUTE on routine outbox.fire"),
    "GRANT CREATE ON SCHEMA outbox TO PUBLIC": ("PUBLIC has the right CREATE on the schema outbox",
                                                "revoke CREATE on schema outbox from public cascade"),
    "REVOKE EXECUTE ON FUNCTION outbox.claim FROM outbox_relay": (
        "outbox_relay lacks the right EXECUTE on the routine outbox.claim", "grant EXECUTE on routine outbox.claim"),
    "ALTER TABLE outbox.dead DISABLE ROW LEVEL SECURITY": ("row security of the table outbox.dead is off",
                                                           "alter table outbox.dead enable row level security"),
    "ALTER SCHEMA outbox OWNER TO friend": ("the schema outbox belongs to friend",
                                            "alter schema outbox owner to outbox_owner"),
    "CREATE FUNCTION outbox.concat(text, text) RETURNS text LANGUAGE sql AS 'SELECT 1'; ALTER FUNCTION outbox.concat OWNER TO "
    "friend": ("the routine outbox.concat(text,text) belongs to friend", "drop routine outbox.concat(text,text)"),
}


@pytest.mark.parametrize("change", CHANGES)
def test_a_difference_is_told_and_mended(db, friend, change):
    """S5: wrong_rights tells what is not as it should be, and its statements make it so."""
    db.sql(change)
    problem, fix = CHANGES[change]
    wrong = db.sql("SELECT problem, fix FROM outbox.wrong_rights() ORDER BY step")
    assert [row for row in wrong if row[0].startswith(problem) and row[1].startswith(fix)], wrong
    for _ in wrong:
        for fix, in db.sql("SELECT fix FROM outbox.wrong_rights() ORDER BY step LIMIT 1"):
            db.sql(fix)
    assert db.sql("SELECT * FROM outbox.wrong_rights()") == []


# ---- what somebody else made -----------------------------------------------------------------------------------------


def migrate(db, schema, *options, check=True, user="postgres"):
    return database.run_cli("migrate", "--store", db.url(user), "--schema", schema, *options, check=check)


def leave(db, schema):
    database.drop_database(db)
    for name in db.server.psql("SELECT rolname FROM pg_roles WHERE rolname LIKE '%s\\_%%'" % schema).split():
        db.server.psql('DROP OWNED BY "%s"; DROP ROLE "%s"' % (name, name))


FOREIGN = {
    "a schema of somebody else's": ("CREATE SCHEMA mine AUTHORIZATION friend", "the schema mine belongs to friend"),
    "a schema that everybody may write to": ("CREATE SCHEMA mine; GRANT CREATE ON SCHEMA mine TO PUBLIC",
                                             "everybody may create objects in the schema mine"),
    "a schema that somebody may write to": ("CREATE SCHEMA mine; GRANT ALL ON SCHEMA mine TO friend",
                                            "friend may create objects in the schema mine"),
    "a role that logs in": ("CREATE ROLE mine_api LOGIN", "the role mine_api is there, and can log in"),
    "a role that is a superuser": ("CREATE ROLE mine_relay SUPERUSER", "the role mine_relay is there, and is a superuser"),
    "a role with a member": ("CREATE ROLE mine_owner; GRANT mine_owner TO friend", "friend is a member of mine_owner"),
}


@pytest.mark.parametrize("what", FOREIGN)
def test_what_somebody_else_made(empty_db, friend, what):
    """S3 S5: it is refused, and said why and what to do; taken over when asked, nobody else has any rights in it."""
    statement, said = FOREIGN[what]
    try:
        empty_db.sql(statement)
        refused = migrate(empty_db, "mine", check=False)
        assert refused.returncode == 78 and said in refused.stderr and "--adopt" in refused.stderr, refused.stderr
        assert empty_db.sql("SELECT to_regclass('mine.migration')") == [(None,)]
        dry = migrate(empty_db, "mine", "--adopt", "--dry-run")
        assert "would adopt: " in dry.stderr
        assert migrate(empty_db, "mine", check=False).returncode == 78, "a dry run changes nothing"
        done = migrate(empty_db, "mine", "--adopt")
        assert "adopting: " in done.stderr
        assert empty_db.sql("SELECT * FROM mine.wrong_rights()") == []
        assert migrate(empty_db, "mine").returncode == 0
        with empty_db.connect(user=friend) as conn:
            assert attempt(conn, "CREATE FUNCTION mine.concat(text, text) RETURNS text LANGUAGE sql AS 'SELECT 1'") == NO_RIGHT
            assert attempt(conn, "DROP SCHEMA mine CASCADE") == NO_RIGHT
    finally:
        leave(empty_db, "mine")


def test_the_schema_public(empty_db):
    """S3: which everybody could write to until PostgreSQL 15, and which belongs to the database's owner since."""
    refused = migrate(empty_db, "public", check=False)
    assert refused.returncode == 78 and "the schema public" in refused.stderr
    empty_db.sql("ALTER SCHEMA public OWNER TO postgres; GRANT CREATE ON SCHEMA public TO PUBLIC")
    refused = migrate(empty_db, "public", check=False)
    assert refused.returncode == 78 and "everybody may create objects in the schema public" in refused.stderr


def test_a_schema_made_for_it(empty_db, friend):
    """S5: whoever migrates may have made the schema before, for the outbox."""
    try:
        empty_db.sql("ALTER ROLE friend CREATEROLE; GRANT CREATE ON DATABASE \"%s\" TO friend" % empty_db.name)
        empty_db.sql("CREATE SCHEMA mine", user=friend)
        migrate(empty_db, "mine", user=friend)
        assert empty_db.sql("SELECT * FROM mine.wrong_rights()") == []
        assert empty_db.sql("SELECT nspowner::regrole::text FROM pg_namespace WHERE nspname = 'mine'") == [("mine_owner",)]
    finally:
        empty_db.server.psql("REASSIGN OWNED BY friend TO postgres", dbname=empty_db.name)
        leave(empty_db, "mine")


def test_doctor_tells(db, friend, tmp_path):
    """N6 S5: what is not as the migration left it, with the statement that mends it; exit 1."""
    config = tmp_path / "outbox.yaml"
    config.write_text("store: %s\nsinks: {out: {kind: 'null'}}\nroutes: [{topic: '*', sink: out}]\n" % db.url())
    before = database.run_cli("doctor", "--config", config)
    assert "rights" not in before.stdout
    db.sql("GRANT SELECT ON outbox.dead TO friend")
    done = database.run_cli("doctor", "--config", config, check=False)
    assert done.returncode == 1
    assert "friend has the right SELECT on the table outbox.dead" in done.stdout
    assert "-> revoke SELECT on table outbox.dead from friend cascade" in done.stdout
    db.sql("revoke SELECT on table outbox.dead from friend cascade")
    assert database.run_cli("doctor", "--config", config).returncode == 0
