"""Attacks: people with a few rights who want more. Each attack is played in full, and has a canary that would sing.

Proves: S3 S5 S6 V1 Y4 (a hook has the rights of its registrant and never the owner's).
"""
import json
import uuid

import psycopg
import pytest

from support.roles import attempt, error_of, login_name, people, refused

ONE, TWO = uuid.UUID(int=1), uuid.UUID(int=2)

INJECTIONS = [
    "'; DROP TABLE outbox.queue; --", "'); SELECT outbox.lane_new('x','y'); --", '"; DELETE FROM outbox.message; --',
    "$$; DROP SCHEMA outbox CASCADE; $$", "%I %L %s %1$s {0} {}", "\\'; SELECT 1; \\", "a', NULL, true); --",
    "outbox.queue WHERE true --", "{\"a\": \"'}\"", "x\\u0027", "ſ＇；--",
]


@pytest.fixture
def crowd(db):
    """People, each with a schema of its own to lay traps in."""
    crowd = people(db)
    for group in ("producer", "relay", "tenant", "operator", "outsider"):
        db.sql('CREATE SCHEMA "%s" AUTHORIZATION "%s"' % (login_name(group), login_name(group)))
    return crowd


def lay_traps(conn, schema):
    """Functions and operators that fit better, or as well, as PostgreSQL's own, and tell who ran them."""
    conn.execute("CREATE TABLE {0}.caught (who text)".format(schema))
    conn.execute("GRANT ALL ON {0}.caught TO PUBLIC".format(schema))
    conn.execute("GRANT USAGE ON SCHEMA {0} TO PUBLIC".format(schema))
    body = "AS $$ BEGIN INSERT INTO {0}.caught VALUES (current_user); RETURN %s; END $$ LANGUAGE plpgsql".format(schema)
    for name, arguments, returns, value in [
            ("octet_length", "text", "int", "1"), ("octet_length", "bytea", "int", "1"),
            ("clock_timestamp", "", "timestamptz", "now()"),
            ("cardinality", "uuid[]", "int", "1"), ("cardinality", "bigint[]", "int", "1"),
            ("concat", "text, text", "text", "''"),
            ("starts_with", "text, text", "boolean", "true"), ("current_setting", "text, boolean", "text", "''"),
            ("pg_has_role", "name, text, text", "boolean", "true"), ("pg_notify", "text, text", "text", "''"),
            ("gen_random_uuid", "", "uuid", "'%s'::uuid" % ONE), ("uuid7", "timestamptz", "uuid", "'%s'::uuid" % ONE),
            ("jsonb_typeof", "jsonb", "text", "'array'"), ("digest", "text", "uuid", "'%s'::uuid" % ONE),
            ("array_fill", "int, int[]", "int[]", "'{1}'::int[]"), ("unnest", "uuid[]", "uuid", "'%s'::uuid" % ONE),
            ("set_config", "text, text, boolean", "text", "''")]:
        conn.execute("CREATE FUNCTION {0}.{1}({2}) RETURNS {3} {4}".format(schema, name, arguments, returns, body % value))
    for left, operator, right, value in [("uuid", "=", "uuid", "true"), ("text", "||", "text", "''"),
                                         ("text", "=", "text", "true"),
                                         ("text", "<>", "text", "true"), ("int", ">", "int", "false"),
                                         ("text", "!~", "text", "true")]:
        name = "op_%s_%d" % (left, sum(map(ord, operator)))
        returns = "text" if operator == "||" else "boolean"
        conn.execute("CREATE FUNCTION {0}.{1}({2}, {3}) RETURNS {4} {5}".format(schema, name, left, right, returns, body % value))
        conn.execute("CREATE OPERATOR {0}.{1} (LEFTARG = {2}, RIGHTARG = {3}, FUNCTION = {0}.{4})".format(
            schema, operator, left, right, name))
    for table in ("queue", "message", "dedupe", "stream", "namespace", "lane", "hook", "pause", "dead", "attempt"):
        conn.execute("CREATE TEMP TABLE {0} (id uuid, name text)".format(table))
    conn.execute("CREATE TEMP VIEW stored AS SELECT 1")
    conn.execute("CREATE TYPE pg_temp.receipt AS (a int)")
    conn.execute("CREATE TYPE pg_temp.delivery AS (a int)")
    conn.execute("SET search_path = {0}, pg_temp, pg_catalog, outbox".format(schema))


def caught(db, group):
    return {row[0] for row in db.sql('SELECT DISTINCT who FROM "%s".caught' % login_name(group))}


# ---- names -----------------------------------------------------------------------------------------------------------


def test_a_producer_shadows_names(db, crowd):
    """S3: traps on the search_path and in pg_temp change nothing in a definer function, and never run as its owner."""
    with crowd.connect("producer") as conn:
        lay_traps(conn, login_name("producer"))
        done = conn.execute("SELECT id, created, seq FROM outbox.enqueue('t', '{\"n\": 1}', key => 'k', dedupe_key => "
                            "'d', headers => '{\"a\": \"b\"}')").fetchone()
        again = conn.execute("SELECT id, created, seq FROM outbox.enqueue('t', '2', dedupe_key => 'd')").fetchone()
        conn.execute("SELECT * FROM outbox.enqueue_many('[{\"topic\": \"t\", \"payload\": 3, \"key\": \"k\"}]'::jsonb)")
        conn.execute("SELECT * FROM outbox.enqueue_bytes('t', 'x'::bytea)")
        assert error_of(conn, "SELECT outbox.enqueue('', '1')").sqlstate == "OB001"
        conn.commit()
    assert done[0] != ONE and done[1:] == (True, 1)
    assert again == (done[0], False, 1)
    assert db.sql("SELECT count(*), count(DISTINCT id) FROM outbox.message") == [(3, 3)]
    assert not caught(db, "producer") & {"outbox_api", "outbox_owner", "outbox_hooks", "postgres"}


def test_a_relay_shadows_names(db, crowd):
    """S3: the same for claim and settle. ack, nack and release run with the caller's rights, so a trap on the caller's
    own path may run, but as nobody else."""
    db.sql("SELECT outbox.enqueue('t', '1', key => 'k')")
    db.sql("SELECT outbox.enqueue('t', '2', key => 'k')")
    with crowd.connect("relay") as conn:
        lay_traps(conn, login_name("relay"))
        mine, = conn.execute("SELECT id, token FROM outbox.claim('w', 10)").fetchall()
        done = conn.execute("SELECT result FROM outbox.settle(%s::uuid[], %s::bigint[], '{1}'::int[])",
                            ([mine[0]], [mine[1]])).fetchall()
        conn.execute("SELECT * FROM outbox.extend(%s::uuid[], '{1}'::bigint[])", ([ONE],))
        conn.execute("SELECT * FROM outbox.purge()")
        attempt(conn, "SELECT * FROM outbox.ack('{%s}'::uuid[], '{1}'::bigint[])" % ONE)
        conn.commit()
    assert done == [("ok",)]
    assert db.sql("SELECT payload FROM outbox.messages WHERE status = 'delivered'") == [(1,)]
    assert caught(db, "relay") <= {login_name("relay")}


def test_an_operator_shadows_names(db, crowd):
    """S3: the same for the operator's functions."""
    db.sql("SELECT outbox.enqueue('t', '1', max_attempts => 1)")
    db.sql("SELECT outbox.nack(ARRAY[id], ARRAY[token], ARRAY['no']) FROM outbox.claim('w')")
    with crowd.connect("operator") as conn:
        lay_traps(conn, login_name("operator"))
        assert conn.execute("SELECT outbox.retry(topic => 't')").fetchone() == (1,)
        conn.execute("SELECT outbox.pause('n'), outbox.resume('n'), outbox.configure('n', 'max_attempts', '2'), "
                     "outbox.erase_tenant('%s'), outbox.erase_subject('n', 's'), outbox.run_failed_hooks()" % ONE)
        conn.commit()
    assert caught(db, "operator") <= {login_name("operator")}


def test_a_tenant_pretends_to_see_all(db, crowd):
    """V1 S5: the views ask for the caller's roles; a pg_has_role of the caller's own, in front of PostgreSQL's, is not
    asked, whichever way the caller turns its search_path."""
    db.sql("SELECT outbox.enqueue('t', '\"secret of one\"', tenant_id => %s)", ONE)
    with crowd.connect("tenant") as conn:
        lay_traps(conn, login_name("tenant"))
        for view in ("messages", "attempts", "dead_letters", "acts"):
            conn.execute("SET search_path = %s, pg_catalog, outbox" % login_name("tenant"))
            assert conn.execute("SELECT * FROM outbox.%s" % view).fetchall() == []
            conn.execute("SET search_path = %s, outbox" % login_name("tenant"))
            assert conn.execute("SELECT * FROM outbox.%s" % view).fetchall() == []
        conn.commit()
    assert caught(db, "tenant") == set()


def test_a_tenant_peeks_through_a_cheap_function(db, crowd):
    """V1: a condition with a side effect, as cheap as can be, is not shown other tenants' rows: the views are
    barriers."""
    for tenant in (ONE, TWO):
        db.sql("SELECT outbox.enqueue('t', to_jsonb(%s::text), tenant_id => %s, max_attempts => 1, subject => 's')",
               "of %s" % tenant, tenant)
    db.sql("SELECT outbox.nack(array_agg(id), array_agg(token), array_agg('no'::text)) FROM outbox.claim('w')")
    db.sql("SELECT outbox.retry(topic => 't')")
    with crowd.connect("tenant", tenant=TWO) as conn:
        schema = login_name("tenant")
        conn.execute("CREATE TABLE %s.seen (what text)" % schema)
        conn.execute("CREATE FUNCTION {0}.peek(text) RETURNS boolean COST 0.0000001 LANGUAGE plpgsql AS $$ BEGIN "
                     "INSERT INTO {0}.seen VALUES ($1); RETURN true; END $$".format(schema))
        for view in ("messages", "attempts", "dead_letters", "acts"):
            assert len(conn.execute("SELECT * FROM outbox.{1} v WHERE {0}.peek(v::text)".format(schema, view)).fetchall()) <= 1
        seen = [row[0] for row in conn.execute("SELECT what FROM %s.seen" % schema)]
    assert seen and not [what for what in seen if str(ONE) in what]


# ---- texts -----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("text", INJECTIONS)
def test_enqueue_takes_texts_as_texts(db, crowd, text):
    """S3: SQL in any text argument is stored or refused, and never run."""
    plain = "".join(c for c in text if c not in " *?")
    before = db.sql("SELECT count(*) FROM pg_class WHERE relnamespace = 'outbox'::regnamespace")
    with crowd.connect("producer") as conn:
        conn.execute("SELECT outbox.enqueue(%s, to_jsonb(%s::text), key => %s, dedupe_key => %s, namespace => %s, "
                     "subject => %s, recipient => %s, headers => jsonb_build_object('h', %s::text), correlation_id => "
                     "%s)",
                     (plain, text, text, text, plain, text, text, text, text))
        conn.execute("SELECT outbox.enqueue_bytes(%s, %s, %s)", (plain, text.encode(), text))
        conn.execute("SELECT outbox.enqueue_many(%s::jsonb)", (json.dumps([{
            "topic": plain, "payload": text, "key": text, "dedupe_key": text + "2", "namespace": plain, "subject": text,
            "recipient": text, "correlation_id": text, "headers": {"h": text}}]),))
        for name in ("tenant_id", "deliver_after", "expires_at"):
            code = attempt(conn, "SELECT outbox.enqueue_many(%s::jsonb)",
                           (json.dumps([{"topic": "t", "payload": 1, name: text}]),))
            assert code and (code.startswith("22") or code.startswith("OB")), (name, code)
        for name in ("h h", text):
            attempt(conn, "SELECT outbox.enqueue('t', '1', headers => jsonb_build_object(%s::text, 'v'))", (name,))
        conn.commit()
    rows = db.sql("SELECT topic, namespace, key, dedupe_key, subject, recipient, correlation_id, payload, headers FROM "
                  "outbox.messages WHERE dedupe_key = %s", text)
    assert rows == [(plain, plain, text, text, text, text, text, text, {"h": text})]
    assert db.sql("SELECT count(*) FROM outbox.messages") == [(3,)]
    assert db.sql("SELECT count(*) FROM pg_class WHERE relnamespace = 'outbox'::regnamespace") == before


@pytest.mark.parametrize("text", INJECTIONS)
def test_work_takes_texts_as_texts(db, crowd, text):
    """S3: the same for the functions of relays and operators."""
    tables = db.sql("SELECT count(*) FROM pg_class WHERE relnamespace = 'outbox'::regnamespace")
    db.sql("SELECT outbox.enqueue('t', '1')")
    with crowd.connect("relay") as conn:
        assert conn.execute("SELECT * FROM outbox.claim(%s, 1, '1 s', %s, ARRAY[%s::text])",
                            (text, text, text)).fetchall() == []
        mine = conn.execute("SELECT id, token FROM outbox.claim(%s, 1)", (text,)).fetchone()
        assert conn.execute("SELECT result FROM outbox.settle(%s, %s, '{3}', %s, %s, %s)",
                            ([mine[0]], [mine[1]], [text], [text], [text])).fetchone() == ("ok",)
        conn.commit()
    assert db.sql("SELECT worker, code, error, reference FROM outbox.attempts") == [(text,) * 4]
    name = text.replace(" ", "_")  # topics and namespaces have no spaces
    with crowd.connect("operator") as conn:
        for call in ("retry", "discard"):
            assert conn.execute("SELECT outbox.%s(namespace => %%s, topic => %%s, code => %%s, actor => %%s, reason => "
                                "%%s)" % call,
                                (name, name, text, text, text)).fetchone() == (0,)
        for call in ("pause", "resume"):
            assert conn.execute("SELECT outbox.%s(%%s, %%s, NULL, %%s, %%s)" % call,
                                (name, name, text, text)).fetchone() == (True,)
        assert attempt(conn, "SELECT outbox.pause(NULL, NULL, %s)", (text,)) == "OB001", "no sink has such a name"
        assert attempt(conn, "SELECT outbox.configure(%s, %s, %s)", (text, text, text)) == "OB001"
        for name in ("retention", "max_payload", "on_dead"):
            assert attempt(conn, "SELECT outbox.configure('*', %s, %s)", (name, text)) == "OB001"
        assert attempt(conn, "SELECT outbox.hook(%s)", (text,)) is not None
        conn.execute("SELECT outbox.erase_subject(%s, %s, NULL, %s, %s)", (text,) * 4)
        conn.execute("SELECT outbox.erase_tenant(%s, %s, %s)", (ONE, text, text))
        assert conn.execute("SELECT outbox.discard(code => %s, actor => %s, reason => %s)",
                            (text,) * 3).fetchone() == (1,)
        conn.commit()
    assert db.sql("SELECT actor, reason FROM outbox.acts WHERE action = 'discard'") == [(text, text)]
    assert db.sql("SELECT count(*) FROM pg_class WHERE relnamespace = 'outbox'::regnamespace") == tables


def test_a_forged_memory(db, crowd):
    """S5: what a session remembers between claims lies in a setting that its user may write. Nonsense in it is an error
    or is ignored; it runs nothing and shows nothing else."""
    db.sql("SELECT outbox.enqueue('t', '1')")
    db.sql("SELECT outbox.pause('default', 't')")
    name = db.sql("SELECT 'outbox.memory_' || 'outbox.queue'::regclass::oid")[0][0]
    lane = db.sql("SELECT id FROM outbox.lane")[0][0]
    forged = '("","%s",00:00:10,"{""(%s,4,-1,2000-01-01)""}")' % ("2100-01-01", lane)
    with crowd.connect("relay") as conn:
        for text in INJECTIONS + ["(,,,)", "()", forged]:
            conn.execute("SELECT set_config(%s, %s, false)", (name, text))
            code = attempt(conn, "SELECT * FROM outbox.claim('w')")
            assert code is None or code.startswith("22"), (text, code)
            conn.execute("SELECT set_config(%s, %s, false)", (name, text))
            if code is None:
                assert conn.execute("SELECT * FROM outbox.claim('w')").fetchall() == [], "it is paused"


# ---- hooks -----------------------------------------------------------------------------------------------------------

ESCAPES = {
    "reads the queue": "PERFORM 1 FROM outbox.queue",
    "rewrites an attempt": "UPDATE outbox.attempt SET error = ''",
    "enqueues": "PERFORM outbox.enqueue('t', '1')",
    "claims": "PERFORM outbox.claim('w')",
    "writes as the api": "INSERT INTO outbox.lane VALUES (1, 'a', 'b')",
    "plants a function": "CREATE FUNCTION outbox.cardinality(uuid[]) RETURNS int LANGUAGE sql AS 'SELECT 1'",
    "plants a table": "CREATE TABLE outbox.planted (a int)",
    "grants": "GRANT outbox_operator TO person_outsider",
    "becomes the owner": "SET ROLE outbox_owner",
    "becomes the api": "SET ROLE outbox_api",
    "becomes the session": "RESET ROLE; RESET SESSION AUTHORIZATION",
    "changes itself": "ALTER FUNCTION outbox.call_hook SECURITY INVOKER",
}


def hook_of(db, body, security="DEFINER"):
    """A registered hook of the outsider's, whose function then is replaced by one with this body."""
    schema = login_name("outsider")
    db.sql("GRANT outbox_operator TO %s" % schema)
    with db.connect(user=login_name("outsider"), autocommit=True) as conn:
        conn.execute("CREATE FUNCTION {0}.hooked(events jsonb) RETURNS void LANGUAGE plpgsql SECURITY DEFINER SET "
                     "search_path = {0}, pg_temp AS 'BEGIN END'".format(schema))
        conn.execute("GRANT USAGE ON SCHEMA {0} TO outbox_hooks; GRANT EXECUTE ON FUNCTION {0}.hooked TO outbox_hooks".format(schema))
        conn.execute("SELECT outbox.hook('%s.hooked(jsonb)')" % schema)
        conn.execute("CREATE OR REPLACE FUNCTION {0}.hooked(events jsonb) RETURNS void LANGUAGE plpgsql SECURITY {1} "
                     "AS $$ {2} $$".format(schema, security, body))
    db.sql("REVOKE outbox_operator FROM %s" % schema)


def run_hook(db):
    db.sql("SELECT outbox.enqueue('t', '1')")
    done = db.sql("SELECT result FROM outbox.claim('w') c, LATERAL outbox.ack(ARRAY[c.id], ARRAY[c.token])")
    assert done == [("ok",)], "whatever the hook does, the outcome stands"
    return [row[0] for row in db.sql("SELECT error FROM outbox.hook_failure ORDER BY id")]


@pytest.mark.parametrize("what", ESCAPES)
def test_a_hook_turned_invoker_has_no_rights(db, crowd, what):
    """Y4 S3: replaced by a SECURITY INVOKER function after it was registered, a hook is not called any more."""
    hook_of(db, "BEGIN %s; END" % ESCAPES[what], "INVOKER")
    error, = run_hook(db)
    assert error == "42501 the function person_outsider.hooked is not SECURITY DEFINER with a fixed search_path any more"
    assert db.sql("SELECT to_regclass('outbox.planted'), to_regprocedure('outbox.cardinality(uuid[])')") == [(None, None)]


def test_who_a_hook_is(db, crowd):
    """Y4: a hook runs as its owner."""
    hook_of(db, "BEGIN RAISE 'I am %', current_user; END", "DEFINER SET search_path = person_outsider")
    assert run_hook(db) == ["P0001 I am person_outsider"]


def test_an_invoker_hook_leaves_no_traps_in_the_session(db, crowd):
    """S3: temporary objects that a hook leaves in the relay's session are not taken for ours by what follows."""
    hook_of(db, "BEGIN CREATE TEMP TABLE IF NOT EXISTS queue (id uuid); CREATE TEMP TABLE IF NOT EXISTS attempt (id "
                "uuid); CREATE TEMP TABLE IF NOT EXISTS hook (id uuid); PERFORM set_config('search_path', 'pg_temp', "
                "false); END", "INVOKER")
    with crowd.connect("relay", autocommit=True) as conn:
        for _ in range(3):
            db.sql("SELECT outbox.enqueue('t', '1')")
            mine = conn.execute("SELECT id, token FROM outbox.claim('w')").fetchone()
            assert conn.execute("SELECT result FROM outbox.ack(ARRAY[%s::uuid], ARRAY[%s::bigint])",
                                mine).fetchone() == ("ok",)
    assert db.sql("SELECT count(*) FROM outbox.attempt") == [(3,)]


def test_hooks_are_not_called_by_hand(db, crowd):
    """Y4 S5: nobody calls a hook, or tells the hooks of an outcome that did not happen."""
    hook_of(db, "BEGIN RAISE 'called'; END")
    for group in ("producer", "relay", "operator", "auditor", "tenant", "outsider"):
        with crowd.connect(group) as conn:
            refused(conn, "SELECT outbox.call_hook('person_outsider', 'hooked', '[]')")
            refused(conn, "SELECT outbox.fire('delivered', ARRAY[gen_random_uuid()], NULL)")
            refused(conn, "SELECT outbox.record('me', 'retry', NULL, NULL, NULL, NULL)")


def test_a_function_of_somebody_else_is_not_registered(db, crowd):
    """Y4: an operator cannot make the outbox run another's function, and so borrow its owner's rights."""
    db.sql("CREATE FUNCTION public.powerful(jsonb) RETURNS void LANGUAGE sql SECURITY DEFINER SET search_path = "
           "pg_catalog AS 'SELECT'")
    with crowd.connect("operator") as conn:
        error = error_of(conn, "SELECT outbox.hook('public.powerful(jsonb)')")
        assert error.sqlstate == "42501" and "not yours" in error.message_primary and "owner" in error.message_hint
    assert db.sql("SELECT count(*) FROM outbox.hook") == [(0,)]
