"""outbox migrate on real servers: twice, many at once, looked at first, and refused with the right words.

Proves: N11 (migrations), V17 (the schema is deployed before any worker), S5 (roles), and the refusals that an operator
meets: drift, newer versions, missing rights, other people's schemas.
"""
import glob
import json
import os
import re
import signal
import subprocess
import time

import pytest
from psycopg import sql

from support.database import CLI, ROOT, create_database, drop_database, run_cli

FILES = sorted(os.path.basename(path)[:-4] for path in glob.glob(os.path.join(ROOT, "sql/postgres/[0-9]*.sql")))
ROLES = ["owner", "api", "hooks", "nobody", "producer", "relay", "operator", "auditor", "tenant"]
FORBIDDEN, SCHEMA, USAGE = 77, 78, 2


def migrations(db, schema="outbox"):
    query = sql.SQL("select name from {}.migration order by version").format(sql.Identifier(schema))
    return [row[0] for row in db.sql(query)]


def schemas(db):
    return {row[0] for row in db.sql("select nspname from pg_namespace where nspname !~ '^(pg_|information_schema)'")}


def roles_of(db, schema):
    return {row[0] for row in db.sql("select rolname from pg_roles where rolname = any(%s)",
                                     ["%s_%s" % (schema, role) for role in ROLES])}


def start(*args):
    return subprocess.Popen([CLI, *args], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)


@pytest.fixture
def name(pg_server, request):
    """A schema name whose roles no other test has made. Name it before the database, which must go first."""
    schema = "s_" + re.sub(r"\W", "_", request.node.name)[:30].lower()
    yield schema
    for role in ROLES:
        pg_server.psql('DROP ROLE IF EXISTS "%s_%s"' % (schema, role))


# ---- it works --------------------------------------------------------------------------------------------------------


def test_twice(empty_db):
    """N11 V17: the second run finds nothing to do and changes nothing."""
    first = empty_db.cli("migrate", "--json")
    before = empty_db.sql("select * from outbox.migration order by version")
    second = empty_db.cli("migrate", "--json")
    assert [row["name"] for row in json.loads(first.stdout)["applied"]] == FILES
    assert json.loads(second.stdout)["applied"] == []
    assert empty_db.sql("select * from outbox.migration order by version") == before
    assert migrations(empty_db) == FILES
    assert "is up to date" in empty_db.cli("migrate").stderr


def test_says_which_roles_the_schema_gets(empty_db):
    """S5."""
    assert set(json.loads(empty_db.cli("migrate", "--json").stdout)["roles"]) == {"outbox_" + role for role in ROLES}
    assert roles_of(empty_db, "outbox") == {"outbox_" + role for role in ROLES}


def test_many_at_once(name, empty_db):
    """N11: real processes; each migration is applied exactly once, and nobody fails."""
    runs = [start("migrate", "--store", empty_db.url(), "--schema", name, "--json") for _ in range(5)]
    done = [run.communicate(timeout=120) + (run.returncode,) for run in runs]
    assert [status for _, _, status in done] == [0] * 5, [err for _, err, _ in done]
    assert sorted(len(json.loads(out)["applied"]) for out, _, _ in done) == [0, 0, 0, 0, len(FILES)]
    assert migrations(empty_db, name) == FILES


def test_two_databases_at_once(pg_server, name):
    """N11: roles are shared by the databases of a cluster; first runs side by side make them once."""
    dbs = [create_database(pg_server, "side_%d" % i) for i in range(3)]
    try:
        runs = [start("migrate", "--store", db.url(), "--schema", name) for db in dbs]
        assert [(run.communicate(timeout=120)[1], run.returncode)[1] for run in runs] == [0, 0, 0]
        assert [migrations(db, name) for db in dbs] == [FILES] * 3
        assert len(roles_of(dbs[0], name)) == len(ROLES)
    finally:
        for db in dbs:
            drop_database(db)


def test_killed_in_the_middle(empty_db):
    """N11: a migrate that is killed leaves whole migrations only, and the next one goes on."""
    with empty_db.connect() as conn:
        conn.execute("create schema outbox")  # not committed: migrate waits for it in its first transaction
        run = start("migrate", "--store", empty_db.url())
        deadline = time.monotonic() + 60
        while not empty_db.sql("select 1 from pg_stat_activity where application_name = 'outbox migrate' "
                               "and wait_event_type = 'Lock'"):
            assert time.monotonic() < deadline and run.poll() is None
        run.send_signal(signal.SIGKILL)
        run.wait()
        conn.rollback()
    assert "outbox" not in schemas(empty_db)
    empty_db.cli("migrate")
    assert migrations(empty_db) == FILES


@pytest.mark.parametrize("schema", ['My "odd" one', "it's 100% \\odd", "ünïcode", "x" * 50])
def test_beside_another(db, pg_server, schema):
    """N11 S5: a second outbox in a schema of another name shares neither messages nor roles with the first."""
    try:
        db.cli("migrate", "--schema", schema)
        mine = db.cli("send", "--schema", schema, "t", "1", "--json")
        db.cli("send", "t", "2")
        listed = db.cli("list", "--schema", schema, "--json", "--payload").stdout.splitlines()
        assert [json.loads(line)["id"] for line in listed] == [json.loads(mine.stdout)["id"]]
        assert json.loads(listed[0])["payload"] == 1
        assert len(db.cli("list", "--json").stdout.splitlines()) == 1
        assert roles_of(db, schema) == {"%s_%s" % (schema, role) for role in ROLES}
        assert db.cli("migrate", "--status", "--schema", schema).returncode == 0
        assert migrations(db, schema) == FILES
        db.cli("purge", "--schema", schema)
    finally:
        drop_database(db)
        for role in ROLES:
            pg_server.psql('DROP ROLE IF EXISTS "%s_%s"' % (schema.replace('"', '""'), role))


# ---- looking first ---------------------------------------------------------------------------------------------------


def test_status(empty_db):
    """N11: --status tells pending from applied, and says so in its exit code."""
    before = empty_db.cli("migrate", "--status", "--json", check=False)
    assert before.returncode == 1
    report = json.loads(before.stdout)
    assert [(row["name"], row["state"]) for row in report["migrations"]] == [(name, "pending") for name in FILES]
    assert report["up_to_date"] is False
    assert "outbox" not in schemas(empty_db)
    empty_db.cli("migrate")
    report = json.loads(empty_db.cli("migrate", "--status", "--json").stdout)
    assert {row["state"] for row in report["migrations"]} == {"applied"}
    assert {row["applied_by"] for row in report["migrations"]} == {"postgres"}
    assert report["up_to_date"] is True
    assert empty_db.cli("migrate", "--status").stdout.count("applied") == len(FILES)


def test_dry_run(name, empty_db):
    """N11: --dry-run runs everything and leaves nothing, roles included."""
    done = empty_db.cli("migrate", "--dry-run", "--schema", name)
    assert "rolled back" in done.stderr and done.stderr.count("would apply") == len(FILES)
    assert name not in schemas(empty_db)
    assert roles_of(empty_db, name) == set()
    again = json.loads(empty_db.cli("migrate", "--dry-run", "--schema", name, "--json").stdout)
    assert again["dry_run"] is True and len(again["applied"]) == len(FILES)


def test_print(empty_db, pg_server):
    """N11: --print needs no database, and what it prints makes an outbox that migrate knows."""
    text = run_cli("migrate", "--print", env={"OUTBOX_STORE": "", "DATABASE_URL": ""}).stdout
    assert "@schema@" not in text
    pg_server.psql(text, dbname=empty_db.name)
    assert json.loads(empty_db.cli("migrate", "--json").stdout)["applied"] == []
    assert empty_db.cli("send", "t", "1").returncode == 0


# ---- it refuses ------------------------------------------------------------------------------------------------------


def refused(db, status, *words, args=(), user="postgres"):
    done = run_cli("migrate", "--store", db.url(user), *args, check=False)
    assert done.returncode == status, done.stderr
    for word in words:
        assert word in done.stderr
    return done.stderr


def test_drift(db):
    """N11: a migration whose text changed after it was applied stops the run and shows in --status."""
    db.sql("delete from outbox.migration where version = %s", int(FILES[-1][:3]))
    db.sql("update outbox.migration set checksum = 'another' where version = 2")
    refused(db, SCHEMA, FILES[1], "differs from")
    assert migrations(db) == FILES[:-1]
    done = db.cli("migrate", "--status", "--json", check=False)
    states = [row["state"] for row in json.loads(done.stdout)["migrations"]]
    assert done.returncode == 1
    assert states == ["applied", "drifted"] + ["applied"] * (len(FILES) - 3) + ["pending"]


def test_newer_version(db):
    """N11: a database that a later version migrated is left alone; producers and relays still work on it."""
    db.sql("insert into outbox.migration values (999, '999_future', 'x')")
    refused(db, SCHEMA, "newer version", "999_future")
    done = db.cli("migrate", "--status", "--json", check=False)
    assert done.returncode == 1
    assert json.loads(done.stdout)["migrations"][-1]["state"] == "newer"
    assert db.cli("send", "t", "1").returncode == 0


def test_other_peoples_schema(empty_db):
    """N11: a schema that holds does not hold an outbox is not touched."""
    empty_db.sql("create schema outbox")
    empty_db.sql("create table outbox.theirs (id int)")
    refused(empty_db, SCHEMA, "does not hold an outbox", "--schema")
    assert empty_db.sql("select relname from pg_class where relnamespace = 'outbox'::regnamespace") == [("theirs",)]


@pytest.mark.parametrize("schema, word", [
    ("", "empty"), ("x" * 51, "51 bytes"), ("pg_mine", "reserved"), ("information_schema", "reserved"),
    ("a\nb", "control"), ("a$b", "dollar"), ("a*/b", "*/"), (b"\xff\xfe", "UTF-8"),
])
def test_schema_names(empty_db, schema, word):
    """S3: names that no schema of ours may have are refused before anything is done."""
    command = [CLI, "migrate", "--store", empty_db.url(), "--schema", schema]
    done = subprocess.run(command, stderr=subprocess.PIPE, timeout=60)
    assert done.returncode == USAGE
    assert word in done.stderr.decode()
    assert schemas(empty_db) == {"public"}


def follow_the_advice(db, pg_server, user, name):
    """Runs migrate, and what each refusal tells an administrator to run, until it works; what that was."""
    granted = []
    while len(granted) < 5:
        done = run_cli("migrate", "--store", db.url(user), "--schema", name, check=False)
        if done.returncode == 0:
            break
        assert done.returncode == FORBIDDEN, done.stderr
        assert name not in schemas(db)
        granted.append(re.search(r"administrator can run: (.*)", done.stderr).group(1))
        pg_server.psql(granted[-1])
    assert migrations(db, name) == FILES
    return granted


def test_without_rights_says_which(name, empty_db, pg_server):
    """S5: each refusal names the statement that an administrator must run; after running them all, it works."""
    pg_server.psql("CREATE ROLE plain_joe LOGIN")
    try:
        assert follow_the_advice(empty_db, pg_server, "plain_joe", name) == [
            'ALTER ROLE "plain_joe" CREATEROLE', 'GRANT CREATE ON DATABASE "%s" TO "plain_joe"' % empty_db.name]
    finally:
        drop_database(empty_db)
        pg_server.psql("DROP OWNED BY plain_joe; DROP ROLE plain_joe")


def test_with_roles_made_by_an_administrator(name, empty_db, pg_server):
    """S5: where nobody but administrators may create roles, they make them, and grant four of them."""
    pg_server.psql("CREATE ROLE plain_jim LOGIN")
    pg_server.psql("".join('CREATE ROLE "%s_%s" NOLOGIN;' % (name, role) for role in ROLES))
    try:
        assert follow_the_advice(empty_db, pg_server, "plain_jim", name) == [
            'GRANT "{0}_owner", "{0}_api", "{0}_hooks", "{0}_nobody" TO "plain_jim"'.format(name),
            'GRANT CREATE ON DATABASE "%s" TO "plain_jim"' % empty_db.name]
    finally:
        drop_database(empty_db)
        pg_server.psql("DROP OWNED BY plain_jim; DROP ROLE plain_jim")


def test_as_a_role_that_may_create_roles(name, empty_db, pg_server):
    """S5 S3: no superuser is needed, and what comes out is guarded in the same way."""
    pg_server.psql('CREATE ROLE dba LOGIN CREATEROLE; GRANT CREATE ON DATABASE "%s" TO dba; CREATE ROLE app LOGIN'
                   % empty_db.name)
    try:
        run_cli("migrate", "--store", empty_db.url("dba"), "--schema", name)
        again = run_cli("migrate", "--store", empty_db.url("dba"), "--schema", name, "--json")
        assert json.loads(again.stdout)["applied"] == []
        empty_db.sql('grant "%s_producer" to app' % name, user="dba")
        run_cli("send", "--store", empty_db.url("app"), "--schema", name, "t", "1")
        refusal = run_cli("list", "--store", empty_db.url("app"), "--schema", name, check=False)
        assert refusal.returncode == FORBIDDEN
        assert 'GRANT "%s_auditor" TO "app"' % name in refusal.stderr
        owners = empty_db.sql("select distinct pg_get_userbyid(relowner) from pg_class where relnamespace = %s::regnamespace "
                              "and relkind in ('r', 'p', 'v')", name)
        assert {owner for owner, in owners} == {name + "_owner", name + "_api"}
    finally:
        drop_database(empty_db)
        pg_server.psql("DROP ROLE app; DROP ROLE dba")


def test_unreachable(pg_server):
    """Nobody there: exit 69."""
    done = run_cli("migrate", "--store", "postgresql://nobody:secret@127.0.0.1:1/x", check=False)
    assert done.returncode == 69
    assert "cannot connect" in done.stderr and "secret" not in done.stderr
