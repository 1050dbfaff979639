"""Settings of a session, its role or its database change nothing in what the outbox does.

Proves: V8 M8 (claims go on whatever the database's defaults are).
"""
import psycopg
import pytest

from support import database
from support.roles import attempt

HOSTILE = {
    "datestyle": "SQL, DMY",
    "timezone": "Asia/Jakarta",
    "intervalstyle": "sql_standard",
}


def hostile(db, **more):
    """A connection whose settings are anything but ours."""
    conn = db.connect(autocommit=True)
    for name, value in {**HOSTILE, **more}.items():
        conn.execute("SELECT set_config(%s, %s, false)", (name, value))
    return conn


@pytest.mark.parametrize("style", ["SQL, DMY", "SQL, MDY", "Postgres, DMY", "German"])
def test_claims_go_on(db, style):
    """V8: what a session remembers of its last claim is read as it was written, whatever its DateStyle and zone."""
    db.sql("SELECT outbox.enqueue('t', '1', tenant_id => gen_random_uuid()) FROM generate_series(1, 200)")
    with hostile(db, datestyle=style) as conn:
        taken = [conn.execute("SELECT count(*) FROM outbox.claim('w', 100)").fetchone()[0] for _ in range(3)]
    assert taken == [100, 100, 0]


HARMLESS = {
    **HOSTILE, "bytea_output": "escape", "extra_float_digits": "-15", "standard_conforming_strings": "off",
    "row_security": "off", "array_nulls": "off", "transform_null_equals": "on", "backslash_quote": "off",
    "quote_all_identifiers": "on", "xmlbinary": "hex", "search_path": "", "check_function_bodies": "off", "default_tablespace": "",
}

LIFE = [
    ("SELECT created, seq FROM outbox.enqueue('t', '{\"a\": 1.5}', key => 'k', dedupe_key => 'd', headers => '{\"a\": \"b\"}')",
     [(True, 1)]),
    ("SELECT created FROM outbox.enqueue_bytes('t', decode('28b52ffd240161', 'hex'), encoding => 'zstd', content_type => 'x/y', "
     "max_attempts => 1)", [(True,)]),
    ("SELECT created FROM outbox.enqueue_many('[{\"topic\": \"t\", \"payload\": 1, \"deliver_after\": \"2001-02-03 04:05:06+00\", "
     "\"expires_at\": \"2101-02-03\"}]')", [(True,)]),
    ("SELECT count(*) FROM outbox.claim('w', lease => '30 s', retry_base => '2 s')", [(3,)]),
    ("SELECT result FROM outbox.settle((SELECT array_agg(id ORDER BY id) FROM outbox.messages), '{1,1,1}', '{1,3,2}', "
     "errors => array[NULL, E'back\\\\\\\\slash', 'x'])", [("ok",)] * 3),
    ("SELECT outbox.retry(before => now())", [(1,)]),
    ("SELECT outbox.configure('n', 'retry_base', '00:00:02')", [("",)]),
    ("SELECT outbox.configure('*', 'retention', '8 days')", [("",)]),
    ("SELECT outbox.beat('w', every => '10 s')", [(True,)]),
    ("SELECT outbox.tune('poll', '500ms')", [(True,)]),
    ("SELECT outbox.pause('n', 't'), outbox.resume('n', 't')", [(True, True)]),
    ("SELECT pending FROM outbox.gauges() WHERE namespace IS NULL", [(2,)]),
    ("SELECT more FROM outbox.purge()", None),
    ("SELECT outbox.erase_subject('n', 's')", [(0,)]),
    ("SELECT outbox.current_tenant()", [(None,)]),
    ("SELECT count(*) FROM outbox.wrong_rights()", [(0,)]),
]


def test_every_function_has_its_own_settings(db):
    """S3 V8: a whole life of messages in a session whose settings are anything but ours, row_security too."""
    with hostile(db, **HARMLESS) as conn:
        for call, wanted in LIFE:
            got = conn.execute(call.replace("outbox.messages", "outbox.message") if "settle" in call else call).fetchall()
            assert wanted is None or got == wanted, call
    assert db.sql("SELECT retry_base::text FROM outbox.namespace WHERE name = 'n'") == [("00:00:02",)]
    assert db.sql("SELECT deliver.next_attempt_at IS NOT NULL, expires_at FROM outbox.messages deliver WHERE expires_at IS NOT "
                  "NULL")[0][1].isoformat() == "2101-02-03T00:00:00+00:00"


FIXED = {"search_path", "row_security", "standard_conforming_strings", "DateStyle", "IntervalStyle", "TimeZone", "bytea_output",
         "extra_float_digits", "array_nulls", "transform_null_equals"}


def test_what_others_call_is_fixed(db):
    """S3: every function that a role may call, and every SECURITY DEFINER one, fixes all that a text's meaning depends on."""
    rows = db.sql("SELECT p.proname, ARRAY(SELECT split_part(c, '=', 1) FROM unnest(p.proconfig) c) FROM pg_proc p WHERE "
                  "p.pronamespace = 'outbox'::regnamespace AND (p.prosecdef OR EXISTS (SELECT FROM aclexplode(p.proacl) a "
                  "WHERE a.grantee <> p.proowner AND pg_get_userbyid(a.grantee) NOT IN ('outbox_owner', 'outbox_api')))")
    assert len(rows) > 40
    loose = {name: FIXED - set(settings or []) for name, settings in rows if FIXED - set(settings or [])}
    assert loose.pop("enqueue") == loose.pop("enqueue_bytes") == FIXED, "test_enqueue_writes_the_same, test_planted_names.py"
    assert set(loose) == {"ack", "nack", "release", "doorbell_class", "doorbell_channel", "uuid_at", "ten_seconds_of", "handed_out",
                          "like_of", "cluster_id"}, "these depend on no setting"


EVERYTHING = ("key => 'k', tenant_id => '0a0b0c0d-1111-4222-8333-444444444444', dedupe_key => '0a0b0c0d-1111-4222-8333-444444444444/%d', "
              "namespace => 'n', subject => 's', recipient => 'r', headers => '{\"a\": \"\u00fc\"}', priority => 7, "
              "deliver_after => '2030-02-03 04:05:06.789+00', expires_at => '2101-03-02 01:00:00+00', max_attempts => 3, "
              "correlation_id => 'c'")
WRITTEN = ("SELECT to_jsonb(m) - '{id,created_at,dedupe_key,seq,xid}'::text[], to_jsonb(q) - '{id,seq,sid,shard}'::text[], q.shard = q.sid % 16, "
           "md5(d.digest::text) <> '' FROM outbox.message m JOIN outbox.queue q USING (id) JOIN outbox.dedupe d USING (id) ORDER BY m.seq")


def test_the_short_way_depends_on_no_setting(db):
    """V8 S3: the common call, with and without a key, writes the same and refuses the same in a session whose settings are
    anything but ours."""
    written = []
    for settings in ({}, HARMLESS, {**HARMLESS, "row_security": "on"}):
        with hostile(db, **settings) as conn:
            for key, wanted in ((None, None), ("k", 1), ("k", 2)):
                got = conn.execute("SELECT created, seq FROM outbox.enqueue('t%d', '{\"a\": 1.50}', key => %%s, correlation_id => "
                                   "'c')" % len(written), (key,)).fetchone()
                assert got == (True, wanted), (settings, key)
            conn.execute("SELECT outbox.enqueue('t%d', '{\"a\": 1.50}')" % len(written))
            for wanted in (True, False):
                assert conn.execute("SELECT created FROM outbox.enqueue('t%d', '2', dedupe_key => 'd')" % len(written)).fetchone()[0] is wanted
            for bad in ({"key": ""}, {"key": "a\nb"}, {"dedupe_key": ""}, {"dedupe_key": "x" * 513}, {"key": "x" * 513}, {"subject": ""}, {"recipient": "\u0085"},
                        {"correlation_id": "x" * 256}):
                name, value = bad.popitem()
                with pytest.raises(psycopg.Error) as caught:
                    conn.execute("SELECT outbox.enqueue('t%d', '1', %s => %%s)" % (len(written), name), (value,))
                assert caught.value.sqlstate == "OB001", (settings, name)
        written.append(db.sql("SELECT to_jsonb(m) - '{id,created_at,ord,pos,lane,sid,topic,shard}'::text[], (m.shard = -1) = (m.key IS "
                              "NULL) FROM outbox.message m WHERE m.topic = 't%d' ORDER BY m.pos" % len(written)))
    assert len(written[0]) == 5 and written[0] == written[1] == written[2]


def test_enqueue_writes_the_same(db):
    """V8 M2: what enqueue and enqueue_bytes write depends on none of the settings that they do not fix."""
    db.sql("SELECT outbox.configure('*', 'lane', 'queue')")
    calls = ["SELECT created FROM outbox.enqueue('t', '{\"a\": [1.10, null, \"x\"]}'::jsonb, " + EVERYTHING + ")",
             "SELECT created FROM outbox.enqueue_bytes('t', decode('28b52ffd240161', 'hex'), encoding => 'zstd', " + EVERYTHING + ")"]
    for number, call in enumerate(calls):
        with db.connect(autocommit=True) as conn:
            assert conn.execute(call % (2 * number)).fetchone() == (True,)
        with hostile(db, **HARMLESS) as conn:
            assert conn.execute(call % (2 * number + 1)).fetchone() == (True,)
            assert conn.execute(call % (2 * number)).fetchone() == (False,)
    rows = db.sql(WRITTEN)
    assert len(rows) == 4 and rows[0] == rows[1] and rows[2] == rows[3]
    assert rows[0][2] is True


@pytest.mark.parametrize("locale", ["C", "C.UTF-8"])
def test_spaces_are_the_same_everywhere(pg_server, locale):
    """M2: a topic has no space of any kind, whatever the database's collation calls one."""
    pg_server.psql("CREATE DATABASE spaces TEMPLATE template0 ENCODING utf8 LC_COLLATE '%s' LC_CTYPE '%s'" % (locale, locale))
    db = database.Database(pg_server, "spaces")
    try:
        db.cli("migrate")
        with db.connect(autocommit=True) as conn:
            for code in (0x20, 0x09, 0x85, 0xa0, 0x1680, 0x2003, 0x2007, 0x2028, 0x202f, 0x3000, 0x2a, 0x3f):
                for topic, namespace in (("a%cb" % code, "n"), ("t", "a%cb" % code)):
                    assert attempt(conn, "SELECT outbox.enqueue(%s, '1', namespace => %s)", (topic, namespace)) == "OB001", hex(code)
                assert attempt(conn, "SELECT outbox.configure(%s, 'max_attempts', '3')", ("a%cb" % code,)) == "OB001", hex(code)
            for code in (0x01, 0x1f, 0x7f, 0x85, 0x9f):
                assert attempt(conn, "SELECT outbox.enqueue('t', '1', key => %s)", ("a%cb" % code,)) == "OB001", hex(code)
            conn.execute("SELECT outbox.enqueue('größe.日本', '1', key => 'a b\u2003c')")
    finally:
        database.drop_database(db)
