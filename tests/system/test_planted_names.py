"""Planted names: a schema in front of everybody's search_path has a function, an operator, a type or a view for every name
that our SQL uses, each as good a match as PostgreSQL's own or a better one. None of them is ever run.

Proves: S3 S5 (what we run is ours or PostgreSQL's, whoever may write to a schema on the path).
"""
import glob
import json
import os
import re

import psycopg
import pytest

from support import database
from support.database import ROOT

SQL = os.path.join(ROOT, "sql", "postgres")
STATEMENTS = sorted(glob.glob(os.path.join(SQL, "stmt", "*.sql")))
# Not one statement that can be prepared.
COMMANDS = {"begin", "commit", "rollback", "listen", "migrate_begin", "migrate_table", "migrate_print"}

PLANT = r"""
DO $plant$
DECLARE
    p record; v record; args text; body text;
    better CONSTANT jsonb := '{"bigint": ["integer"], "text": ["character varying", "name"], "double precision": ["integer",
        "numeric"], "numeric": ["integer", "bigint", "double precision"], "anyelement": ["text", "uuid", "bigint", "integer",
        "jsonb"], "anynonarray": ["text", "uuid", "bigint", "jsonb"], "anyarray": ["text[]", "uuid[]", "bigint[]", "tid[]"],
        "anycompatiblearray": ["text[]", "uuid[]", "bigint[]", "tid[]"], "anycompatible": ["text", "uuid", "bigint"]}';
BEGIN
    CREATE SCHEMA evil;
    CREATE TABLE evil.caught (what text);
    GRANT USAGE ON SCHEMA evil TO PUBLIC;
    CREATE FUNCTION evil.zz_catch(what text) RETURNS void LANGUAGE plpgsql AS
        $$ BEGIN RAISE LOG 'TRAP %', what; RAISE EXCEPTION 'the trap % has run', what USING errcode = 'XX999'; END $$;
    -- Functions, with the arguments of PostgreSQL's own and with closer ones; aggregates among them.
    FOR p IN SELECT DISTINCT x.proname, x.prokind, x.proargtypes::oid[] AS types, x.prorettype, x.proretset FROM pg_proc x
              WHERE x.pronamespace = 'pg_catalog'::regnamespace AND x.proname = ANY (ARRAY(SELECT word FROM word)) AND x.pronargs < 5
                AND x.prokind IN ('f', 'a') AND NOT (2281::oid = ANY (x.proargtypes::oid[])) LOOP
        FOR v IN WITH RECURSIVE r(n, list) AS (
                     SELECT 0, '{}'::text[]
                     UNION ALL
                     SELECT r.n + 1, r.list || a.type FROM r, LATERAL (
                         SELECT format_type(p.types[r.n], NULL) AS type
                         UNION SELECT jsonb_array_elements_text(better -> format_type(p.types[r.n], NULL))) a
                      WHERE r.n < cardinality(p.types))
                 SELECT r.list FROM r WHERE r.n = cardinality(p.types) LIMIT 12 LOOP
            args := array_to_string(v.list, ', ');
            BEGIN
                IF p.prokind = 'f' THEN
                    EXECUTE format('CREATE FUNCTION evil.%I(%s) RETURNS %s%s LANGUAGE plpgsql AS $$ BEGIN PERFORM '
                        'evil.zz_catch(%L); RETURN%s; END $$', p.proname, args, CASE WHEN p.proretset THEN 'SETOF ' ELSE '' END,
                        CASE WHEN format_type(p.prorettype, NULL) ~ '^any|^record' THEN CASE WHEN args ~ '\[\]|anyarray'
                            THEN 'text[]' ELSE 'text' END ELSE format_type(p.prorettype, NULL) END, p.proname || '(' || args || ')',
                        CASE WHEN p.proretset OR p.prorettype = 2278 THEN '' ELSE ' NULL' END);
                ELSIF cardinality(v.list) = 1 THEN
                    EXECUTE format('CREATE FUNCTION evil.zz_step_%s(text, %s) RETURNS text LANGUAGE plpgsql AS $$ BEGIN '
                        'PERFORM evil.zz_catch(%L); RETURN NULL; END $$', p.proname, args, 'aggregate ' || p.proname);
                    EXECUTE format('CREATE AGGREGATE evil.%I(%s) (SFUNC = evil.zz_step_%s, STYPE = text)', p.proname, args,
                        p.proname);
                END IF;
            EXCEPTION WHEN OTHERS THEN NULL;
            END;
        END LOOP;
    END LOOP;
    -- Operators.
    FOR p IN SELECT o.oprname, format_type(o.oprleft, NULL) AS l, format_type(o.oprright, NULL) AS r,
                    format_type(o.oprresult, NULL) AS result, row_number() OVER () AS n FROM pg_operator o
              WHERE o.oprnamespace = 'pg_catalog'::regnamespace AND o.oprname = ANY (ARRAY(SELECT sign FROM sign)) AND o.oprleft <> 0
              UNION ALL
             SELECT o.name, t.type, t.type, CASE WHEN o.name = '||' THEN t.type ELSE 'boolean' END, 100000 + row_number() OVER ()
               FROM (SELECT sign FROM sign) o(name), unnest('{text[],uuid[],bigint[],tid[]}'::text[]) t(type) LOOP
        BEGIN
            EXECUTE format('CREATE FUNCTION evil.zz_op_%s(%s, %s) RETURNS %s LANGUAGE plpgsql AS $$ BEGIN PERFORM '
                'evil.zz_catch(%L); RETURN NULL; END $$', p.n, p.l, p.r, p.result, 'operator ' || p.oprname);
            EXECUTE format('CREATE OPERATOR evil.%s (LEFTARG = %s, RIGHTARG = %s, FUNCTION = evil.zz_op_%s)', p.oprname, p.l,
                p.r, p.n);
        EXCEPTION WHEN OTHERS THEN NULL;
        END;
    END LOOP;
    -- Types, and the catalogs.
    FOR p IN SELECT t.typname FROM pg_type t WHERE t.typnamespace = 'pg_catalog'::regnamespace AND t.typname = ANY (ARRAY(SELECT word FROM word))
                AND t.typtype = 'b' LOOP
        EXECUTE format('CREATE FUNCTION evil.zz_check_%s(pg_catalog.%I) RETURNS boolean LANGUAGE plpgsql AS $$ BEGIN PERFORM '
            'evil.zz_catch(%L); RETURN true; END $$', p.typname, p.typname, 'type ' || p.typname);
        EXECUTE format('CREATE DOMAIN evil.%I AS pg_catalog.%I CHECK (evil.zz_check_%s(VALUE))', p.typname, p.typname, p.typname);
    END LOOP;
    FOR p IN SELECT c.relname FROM pg_class c WHERE c.relnamespace = 'pg_catalog'::regnamespace AND c.relkind IN ('r', 'v')
                AND c.relname = ANY (ARRAY(SELECT word FROM word)) LOOP
        EXECUTE format('CREATE VIEW evil.%I AS SELECT x.oid FROM pg_catalog.pg_class x, evil.zz_catch(%L)', p.relname,
            'view ' || p.relname);
        EXECUTE format('GRANT SELECT ON evil.%I TO PUBLIC', p.relname);
    END LOOP;
END
$plant$"""


def texts():
    return {path: open(path).read() for path in sorted(glob.glob(os.path.join(SQL, "**", "*.sql"), recursive=True))}


def names_used():
    code = re.sub(r"--[^\n]*", "", "\n".join(texts().values()))
    words = sorted(set(re.findall(r"[a-z_][a-z_0-9]*", code)))
    operators = sorted(set(re.findall(r"[-+*/<>=~!@#%^&|`?]+", code)) | {"~~", "!~~", "~~*", "=", "<>", ">=", "<=", "||"})
    return words, operators


def plain(db):
    """A connection of ours, that the traps are not for."""
    conn = db.connect(autocommit=True, options="-csearch_path=pg_catalog")
    return conn


@pytest.fixture(scope="module")
def trapped(pg_server):
    db = database.create_database(pg_server, "trapped")
    with plain(db) as conn:
        conn.execute("SET client_min_messages = error")
        words, signs = names_used()
        conn.execute("CREATE TEMP TABLE word AS SELECT unnest(%s::text[]) AS word", (words,))
        conn.execute("CREATE TEMP TABLE sign AS SELECT unnest(%s::text[]) AS sign", (signs,))
        conn.execute(PLANT.encode())
        planted = conn.execute("SELECT (SELECT count(*) FROM pg_proc WHERE pronamespace = 'evil'::regnamespace), (SELECT "
                               "count(*) FROM pg_operator WHERE oprnamespace = 'evil'::regnamespace), (SELECT count(*) FROM "
                               "pg_type WHERE typnamespace = 'evil'::regnamespace AND typtype = 'd')").fetchone()
        assert planted[0] > 500 and planted[1] > 300 and planted[2] > 10, planted
        conn.execute('ALTER DATABASE "%s" SET search_path = evil, pg_catalog, public' % db.name)
    with db.connect() as conn, pytest.raises(psycopg.Error, match="the trap"):
        conn.execute("SELECT hashtextextended('a', 0)")
    yield db
    database.drop_database(db)


def traps_run(db):
    return sorted(set(re.findall(r"TRAP (.*)", db.server.read_log())))


def test_everything_runs_without_a_trap(trapped, tmp_path):
    """S3: migrate, as a superuser; then each command, a relay, and each function of a worker in another language."""
    before = traps_run(trapped)
    config = tmp_path / "outbox.yaml"
    config.write_text("store: %s\nsinks: {out: {kind: 'null'}}\nroutes: [{topic: '*', sink: out}]\n" % trapped.url())
    for command in (["migrate", "--dry-run"], ["migrate"], ["migrate", "--status"], ["send", "t", "{}", "--key", "k"],
                    ["send", "u", "{}", "--dedupe-key", "d", "--header", "a: b"], ["list"], ["status"], ["pause", "--topic", "t"],
                    ["resume", "--topic", "t"], ["list", "--status", "dead"], ["retry", "--all", "--yes"],
                    ["discard", "--all", "--yes"], ["purge"], ["tune", "batch", "7"]):
        done = database.run_cli(command[0], "--store", trapped.url(), *command[1:], check=False)
        assert done.returncode in (0, 1, 2), (command, done.stderr)  # 1: nothing matched
        assert "trap" not in done.stderr, (command, done.stderr)
    ids = json.loads(database.run_cli("list", "--store", trapped.url(), "--json", "--limit", "1").stdout.split("\n")[0])["id"]
    database.run_cli("show", "--store", trapped.url(), ids)
    database.run_cli("doctor", "--config", config)
    with trapped.connect(autocommit=True) as conn:
        for call in CALLS:
            conn.execute(call)
        with trapped.connect(autocommit=True) as listener:  # so that the calls ring
            listener.execute("SELECT pg_catalog.pg_advisory_lock_shared(outbox.doorbell_class(), -1)")
            conn.execute("SELECT * FROM outbox.enqueue('t', '1', key => 'k')")
    assert traps_run(trapped) == before


CALLS = [
    "SELECT * FROM outbox.enqueue('t', '1', max_attempts => 1, subject => 's', headers => '{\"a\": \"b\"}')",
    "SELECT * FROM outbox.enqueue('t', '1', key => 'k', dedupe_key => 'd2')",
    # The short way, which fixes no search_path: without a key, with a new and a known one, with one that is refused.
    "SELECT * FROM outbox.enqueue('t', '1')", "SELECT * FROM outbox.enqueue('t', '1', subject => 's')",
    "SELECT * FROM outbox.enqueue('t', '1', key => 'k')", "SELECT * FROM outbox.enqueue('t', '1', key => 'k2')",
    "SELECT * FROM outbox.enqueue('t', '1', key => 'k2', tenant_id => '11111111-1111-4111-8111-111111111111')",
    "SELECT * FROM outbox.enqueue('t', '1', dedupe_key => 'd3')", "SELECT * FROM outbox.enqueue('t', '1', dedupe_key => 'd3')",
    "SELECT * FROM outbox.enqueue_bytes('t', 'x')",
    "SELECT * FROM outbox.enqueue_bytes('t', 'x', deliver_after => '2001-01-01')",
    "SELECT * FROM outbox.enqueue_many('[{\"topic\": \"t\", \"payload\": 1, \"key\": \"k\", \"dedupe_key\": \"x\"}]')",
    "SELECT * FROM outbox.claim('w', 2)",
    "SELECT s.* FROM outbox.claim('w', 100) c, LATERAL outbox.nack(ARRAY[c.id], ARRAY[c.token], ARRAY['no'::pg_catalog.text], "
    "delays => ARRAY['0'::pg_catalog.interval]) s",
    "SELECT s.* FROM outbox.claim('w', 100) c, LATERAL outbox.ack(ARRAY[c.id], ARRAY[c.token]) s",
    "SELECT * FROM outbox.release('{}', '{}', '1 s')", "SELECT * FROM outbox.extend('{}', '{}')",
    "SELECT outbox.retry(topic => 't')", "SELECT outbox.discard(topic => 't')", "SELECT * FROM outbox.purge()",
    "SELECT outbox.configure('n', 'max_attempts', '3')", "SELECT outbox.assign_doorbell('n', 't', 1)",
    "SELECT outbox.tune('poll', '1s'), outbox.beat('w')", "SELECT * FROM outbox.gauges()", "SELECT outbox.run_failed_hooks()",
    "SELECT outbox.erase_subject('default', 's')", "SELECT outbox.erase_tenant('11111111-1111-4111-8111-111111111111')",
    "SELECT outbox.doorbell_channel(0), outbox.doorbell_class(), outbox.current_tenant(), outbox.sees_all()",
    "SELECT * FROM outbox.wrong_rights()", "SELECT outbox.pause('n', 't'), outbox.resume('n', 't')",
] + ["SELECT * FROM outbox." + view for view in ("messages", "attempts", "dead_letters", "acts", "status", "outbox", "relays",
                                                 "tunings")]


@pytest.mark.parametrize("path", [path for path in STATEMENTS if os.path.basename(path)[:-4] not in COMMANDS],
                         ids=lambda path: os.path.basename(path)[:-4])
def test_no_statement_means_a_planted_name(trapped, path):
    """S3: an embedded statement, parsed with the traps in front, depends on none of them. Kept as the body of a function,
    the server tells what it depends on."""
    text = re.sub(r"--[^\n]*", "", open(path).read()).replace("@schema@", "outbox").strip()
    with plain(trapped) as conn:
        conn.execute("SET check_function_bodies = on")
        if not conn.execute("SELECT to_regclass('outbox.migration')").fetchone()[0]:
            database.run_cli("migrate", "--store", trapped.url())
        conn.execute("PREPARE probe AS " + text)
        types, = conn.execute("SELECT ARRAY(SELECT format('pg_catalog.%I', t.typname) FROM unnest(p.parameter_types::oid[]) "
                              "WITH ORDINALITY o(oid, n) JOIN pg_type t ON t.oid = o.oid ORDER BY o.n) FROM "
                              "pg_prepared_statements p WHERE p.name = 'probe'").fetchone()
    with trapped.connect() as conn:
        conn.execute("SET search_path = evil, pg_catalog")
        returns = "void" if text.startswith(("insert", "delete")) else "SETOF record"
        conn.execute("CREATE FUNCTION public.probe(%s) RETURNS %s LANGUAGE sql BEGIN ATOMIC %s; END"
                     % (", ".join(types), returns, text))
        conn.execute("SET search_path = pg_catalog")
        bad = conn.execute("""
            SELECT pg_describe_object(d.refclassid, d.refobjid, 0) FROM pg_depend d
             WHERE d.classid = 'pg_proc'::regclass AND d.objid = 'public.probe'::regproc
               AND pg_describe_object(d.refclassid, d.refobjid, 0) ~ '\\yevil\\y'""").fetchall()
        conn.rollback()
    assert bad == []
