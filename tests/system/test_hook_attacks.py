"""Hooks that want more than their owner's rights: each attack is played in full, in the session of a superuser, and has a
canary that would sing.

Proves: Y4 S3 S5 (a hook has the rights of its owner, never ours, nor those of the one who settles).
"""
import pytest

from support.roles import login_name, people

EVIL = login_name("outsider")
NEVER = {"postgres", "outbox_api", "outbox_owner", "outbox_hooks", login_name("relay")}


class Villain:
    """Owns a schema, a hook, and a table in which everybody who can be made to run its code is caught."""

    def __init__(self, db):
        self.db = db
        people(db)
        db.sql("CREATE SCHEMA evil AUTHORIZATION %s" % EVIL)
        self.run("CREATE TABLE evil.caught (what text, who text DEFAULT current_user)")
        self.run("GRANT ALL ON evil.caught TO PUBLIC; GRANT USAGE ON SCHEMA evil TO PUBLIC")
        self.run("CREATE FUNCTION evil.catch(what text) RETURNS text LANGUAGE plpgsql AS $$ BEGIN INSERT INTO evil.caught "
                 "VALUES (what); RETURN what; END $$")
        self.hook("hooked", "NULL")

    def run(self, text, *params):
        return self.db.sql(text, *params, user=EVIL)

    def function(self, name, body):
        self.run("CREATE OR REPLACE FUNCTION evil.%s(events jsonb) RETURNS void LANGUAGE plpgsql SECURITY DEFINER SET "
                 "search_path = evil, pg_temp AS $$ BEGIN %s; END $$" % (name, body))

    def hook(self, name, body):
        self.function(name, body)
        self.db.sql("GRANT outbox_operator TO %s" % EVIL)
        self.run("SELECT outbox.hook('evil.%s(jsonb)')" % name)
        self.db.sql("REVOKE outbox_operator FROM %s" % EVIL)

    def caught(self):
        return {row[0] for row in self.db.sql("SELECT DISTINCT who FROM evil.caught")}

    def failures(self):
        return [row[0] for row in self.db.sql("SELECT error FROM outbox.hook_failure ORDER BY id")]


@pytest.fixture
def villain(db):
    return Villain(db)


def work(conn, count=1):
    """A worker's round: whatever a hook does, what is claimed is settled."""
    done = []
    for _ in range(count):
        conn.execute("SELECT outbox.enqueue('t', '1')")
        for mine in conn.execute("SELECT id, token FROM outbox.claim('w')").fetchall():
            done += conn.execute("SELECT result FROM outbox.settle(ARRAY[%s::uuid], ARRAY[%s::bigint], '{1}')", mine).fetchall()
    return [row[0] for row in done]


def settings(conn):
    return dict(conn.execute("SELECT name, setting FROM pg_settings UNION ALL SELECT n, coalesce(current_setting(n, true), "
                             "'') FROM unnest('{app.current_tenant_id,outbox.doorbell,role}'::text[]) n").fetchall())


# ---- the session -----------------------------------------------------------------------------------------------------

CHANGES = {
    "search_path": "evil, pg_catalog", "row_security": "off", "default_transaction_isolation": "serializable",
    "app.current_tenant_id": "11111111-1111-4111-8111-111111111111", "datestyle": "SQL, DMY", "statement_timeout": "1",
    "outbox.doorbell": "off", "default_transaction_read_only": "on", "enable_indexscan": "off", "timezone": "Asia/Jakarta",
}


@pytest.mark.parametrize("name, local", [(name, False) for name in CHANGES] + [
    ("search_path", True), ("row_security", True), ("app.current_tenant_id", True)])
def test_a_setting_does_not_stay(villain, name, local):
    """Y4 V8: whatever a hook sets, for the session or the transaction, the session is as before; the next messages are
    delivered once each; and it is said which setting it was."""
    villain.function("hooked", "PERFORM pg_catalog.set_config('%s', '%s', %s)" % (name, CHANGES[name], local))
    villain.db.sql("SELECT outbox.configure('*', 'lane', 'queue')")  # the log shows a transaction no message of its own
    with villain.db.connect(autocommit=True) as conn:
        conn.execute("LOAD 'plpgsql'")
        before = settings(conn)
        assert work(conn, 3) == ["ok"] * 3
        assert settings(conn) == before
        with conn.transaction():
            assert work(conn) == ["ok"]
            assert settings(conn) == before
    assert villain.db.sql("SELECT count(*), count(DISTINCT message_id) FROM outbox.attempts WHERE outcome = 'delivered'") \
        == [(4, 4)]
    confined = local and name in ("search_path", "row_security")
    assert villain.failures() == ([] if confined else ["OB001 the hook left changed: the setting %s" % {
        "datestyle": "DateStyle", "timezone": "TimeZone"}.get(name, name)] * 4)


def test_planted_names(villain):
    """S3: with its own schema on the path of the session, and a better match there for whatever comes next."""
    for name, arguments, returns, value in [
            ("set_config", "text, text, boolean", "text", "''"), ("current_setting", "text", "text", "''"),
            ("current_setting", "text, boolean", "text", "''"), ("cardinality", "uuid[]", "int", "1"),
            ("concat", "text, text", "text", "''"), ("array_cat", "text[], text[]", "text[]", "'{}'::text[]"),
            ("unnest", "text[]", "text", "''"), ("pg_my_temp_schema", "", "oid", "0"),
            ("clock_timestamp", "", "timestamptz", "now()"), ("coalesce", "text, text", "text", "''")]:
        villain.run("CREATE FUNCTION evil.\"%s\"(%s) RETURNS %s LANGUAGE plpgsql AS $$ BEGIN PERFORM evil.catch('%s'); RETURN "
                    "%s; END $$" % (name, arguments, returns, name, value))
    for left, operator, right in [("text[]", "<>", "text[]"), ("text[]", "=", "text[]"), ("text", "=", "text"),
                                  ("text", "||", "text"), ("oid", "<>", "oid"), ("oid", "=", "oid"), ("uuid", "=", "uuid"),
                                  ("integer", ">", "integer"), ("integer", "=", "integer")]:
        name = "op%d" % abs(hash((left, operator)))
        returns = "text" if operator == "||" else "boolean"
        villain.run("CREATE FUNCTION evil.%s(%s, %s) RETURNS %s LANGUAGE plpgsql AS $$ BEGIN PERFORM evil.catch('%s'); RETURN "
                    "'t'; END $$" % (name, left, right, returns, operator))
        villain.run("CREATE OPERATOR evil.%s (LEFTARG = %s, RIGHTARG = %s, FUNCTION = evil.%s)" % (operator, left, right, name))
    for name in ("text", "uuid", "int4", "bool", "timestamptz", "regclass", "oid"):
        villain.run("CREATE DOMAIN evil.\"%s\" AS pg_catalog.%s CHECK (evil.catch('domain') IS NOT NULL)" % (name, name))
    villain.function("hooked", "PERFORM pg_catalog.set_config('search_path', 'evil, pg_catalog', false)")
    with villain.db.connect(autocommit=True) as conn:
        assert work(conn, 4) == ["ok"] * 4
    assert villain.caught() == set()
    assert villain.failures() == ["OB001 the hook left changed: the setting search_path"] * 4


@pytest.mark.parametrize("again", [False, True])
def test_a_deferred_trigger(villain, again):
    """S3: a trigger that a hook defers does not run as the one who settles or commits, nor as a role that may call hooks;
    nor one that this trigger defers in its turn."""
    villain.run("CREATE TABLE evil.later (n int)")
    villain.run("GRANT ALL ON evil.later TO PUBLIC")
    villain.run("CREATE FUNCTION evil.trap() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN PERFORM evil.catch('trigger'); IF "
                "%s AND NEW.n < 5 THEN SET CONSTRAINTS evil.trap DEFERRED; INSERT INTO evil.later VALUES (NEW.n + 1); END "
                "IF; RETURN NULL; EXCEPTION WHEN read_only_sql_transaction THEN RETURN NULL; END $$" % again)
    villain.run("CREATE CONSTRAINT TRIGGER trap AFTER INSERT ON evil.later DEFERRABLE INITIALLY DEFERRED FOR EACH ROW "
                "EXECUTE FUNCTION evil.trap()")
    villain.function("hooked", "INSERT INTO evil.later VALUES (1)")
    with villain.db.connect(autocommit=True) as conn:
        assert work(conn, 2) == ["ok"] * 2
    assert villain.caught() <= {EVIL, "outbox_nobody"}


LEFT = {
    "a cursor that outlives the transaction":
        ("EXECUTE 'DECLARE evil_cursor CURSOR WITH HOLD FOR SELECT evil.catch(''cursor'')'", "the cursor evil_cursor"),
    "a temporary domain": ("EXECUTE 'CREATE DOMAIN pg_temp.text AS pg_catalog.text CHECK (evil.catch(VALUE) IS NOT NULL)'",
                           "the temporary type text"),
    "a temporary view": ("EXECUTE 'CREATE TEMP VIEW pg_roles AS SELECT evil.catch(''view'')'",
                         "the temporary object pg_roles"),
    "a deferred trigger on a temporary table":
        ("EXECUTE 'CREATE TEMP TABLE later (n int); CREATE CONSTRAINT TRIGGER trap AFTER INSERT ON later DEFERRABLE INITIALLY "
         "DEFERRED FOR EACH ROW EXECUTE FUNCTION evil.trap(); INSERT INTO later VALUES (1)'", "permission denied for table later"),
    "itself turned invoker": ("ALTER FUNCTION evil.hooked SECURITY INVOKER", "the function"),
}


@pytest.mark.parametrize("what", LEFT)
def test_nothing_is_left_behind(villain, what):
    """S3: what a hook leaves in the session, to be run by it later, is undone, and the hook has failed."""
    villain.run("CREATE FUNCTION evil.trap() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN PERFORM evil.catch('trigger'); "
                "INSERT INTO pg_temp.later VALUES (2); RETURN NULL; END $$")
    body, said = LEFT[what]
    villain.function("hooked", body)
    with villain.db.connect(autocommit=True) as conn:
        assert work(conn, 2) == ["ok"] * 2
        conn.execute("SELECT 'x'::text, (SELECT count(*) FROM pg_roles)")
    assert not villain.caught() & NEVER
    assert len(villain.failures()) == 2 and all(said in error for error in villain.failures()), \
        villain.failures()


@pytest.mark.parametrize("then", ["NULL", "RAISE 'no'"])
def test_prepared_statements(villain, then):
    """S3: a statement that a hook prepares under a name of the worker's is gone when the settle returns, also where the
    hook fails; to prepare it again is the worker's."""
    villain.function("hooked", "EXECUTE 'DEALLOCATE mine'; EXECUTE 'PREPARE mine AS SELECT evil.catch(''prepared'')'; "
                               "EXECUTE 'PREPARE other AS SELECT 1'; %s" % then)
    with villain.db.connect(autocommit=True) as conn:
        conn.execute("PREPARE mine AS SELECT 1")
        conn.execute("PREPARE kept AS SELECT 2")
        assert work(conn) == ["ok"]
        names = {row[0] for row in conn.execute("SELECT name FROM pg_prepared_statements WHERE from_sql")}
        assert names == {"kept"}
    assert villain.failures() == ["P0001 no" if then != "NULL" else
                                  "OB001 the hook left changed: the prepared statement mine, the prepared statement other"]
    assert villain.caught() == set()


# ---- the role that calls ---------------------------------------------------------------------------------------------


def test_turned_invoker(villain):
    """Y4: a hook that is not SECURITY DEFINER any more is not called: it would be the role that may call all hooks."""
    villain.function("honest", "INSERT INTO evil.caught VALUES (events::text)")
    villain.function("hooked", "PERFORM evil.honest('\"forged\"'); DROP OWNED BY outbox_hooks")
    for change in ("SECURITY INVOKER", "RESET search_path"):
        villain.run("ALTER FUNCTION evil.hooked %s" % change)
        with villain.db.connect(autocommit=True) as conn:
            assert work(conn) == ["ok"]
        assert "not SECURITY DEFINER with a fixed search_path any more" in villain.failures()[-1]
        villain.function("hooked", "PERFORM evil.honest('\"forged\"')")
    villain.run("ALTER FUNCTION evil.hooked SECURITY DEFINER SET search_path = evil")
    villain.db.sql("ALTER FUNCTION evil.hooked OWNER TO postgres")
    with villain.db.connect(autocommit=True) as conn:
        assert work(conn) == ["ok"]
    assert villain.failures()[-1] == "42501 the function evil.hooked belongs to postgres now, not to %s" % EVIL
    assert villain.caught() == set()


# ---- time ------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("body", ["PERFORM pg_catalog.pg_sleep(30)", "RAISE query_canceled"])
def test_a_slow_hook(villain, body):
    """Y4: a hook over the statement_timeout fails alone: the outcome stands, and those behind it get their events later,
    since the server cancels a statement once."""
    villain.function("hooked", body)
    villain.hook("second", "INSERT INTO evil.caught VALUES ('second')")
    with villain.db.connect(autocommit=True) as conn:
        conn.execute("SET statement_timeout = '1s'")
        assert work(conn) == ["ok"]
        conn.execute("SET statement_timeout = 0")
    assert [(error or "")[:5] for error in villain.failures()] == ["57014", ""]
    assert villain.db.sql("SELECT status FROM outbox.messages") == [("delivered",)]
    villain.function("hooked", "NULL")
    assert villain.db.sql("SELECT outbox.run_failed_hooks()") == [(2,)]
    assert villain.caught() == {EVIL}


@pytest.mark.parametrize("body", ["PERFORM pg_catalog.pg_sleep(30)", "RAISE query_canceled", "RAISE 'no'"])
def test_no_hook_in_a_claim(villain, body):
    """Y4 V8: a dying message stops no claim, whatever its hook does: its event waits, and is given by run_failed_hooks."""
    villain.function("hooked", body)
    with villain.db.connect(autocommit=True) as conn:
        conn.execute("SELECT outbox.enqueue('t', '1', expires_at => '2001-01-01', subject => 'expired')")
        conn.execute("SELECT outbox.enqueue('t', '2')")
        conn.execute("SET statement_timeout = '5s'")
        assert conn.execute("SELECT payload FROM outbox.claim('w')").fetchall() == [(2,)]
    assert villain.db.sql("SELECT event ->> 'subject', event ->> 'event', tries, error FROM outbox.hook_failure") \
        == [("expired", "dead", 0, None)]
    villain.function("hooked", "INSERT INTO evil.caught VALUES (events -> 0 ->> 'reason')")
    assert villain.db.sql("SELECT outbox.run_failed_hooks(due_only => true)") == [(1,)]
    assert villain.db.sql("SELECT what FROM evil.caught") == [("expired",)]


def test_failed_events_wait(villain):
    """Y4: as relays call it, run_failed_hooks gives a failed event again after a pause, which doubles."""
    villain.function("hooked", "RAISE 'no'")
    with villain.db.connect(autocommit=True) as conn:
        work(conn)
        for age, tries in ((0, 1), (3, 2), (3, 2), (5, 3), (7, 3), (9, 4)):
            conn.execute("UPDATE outbox.hook_failure SET failed_at = now() - %s * interval '1 s'", (age,))
            assert conn.execute("SELECT outbox.run_failed_hooks(due_only => true)").fetchone() == (0,)
            assert conn.execute("SELECT tries FROM outbox.hook_failure").fetchone() == (tries,)
