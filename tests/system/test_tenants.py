"""Tenants: a session with app.current_tenant_id sees and acts on that tenant's rows only, whoever it is.

Proves: V1 M5 Y5.
"""
import json
import uuid

import pytest

from support.roles import error_of, people, refused

ONE, TWO = uuid.UUID("11111111-1111-4111-8111-111111111111"), uuid.UUID("22222222-2222-4222-8222-222222222222")

TENANT_TABLES = """
    SELECT c.relname, c.relrowsecurity, c.relforcerowsecurity, c.relispartition,
           (SELECT array_agg(p.polname::text ORDER BY p.polname) FROM pg_policy p WHERE p.polrelid = c.oid)
      FROM pg_class c JOIN pg_attribute a ON a.attrelid = c.oid AND a.attname = 'tenant_id'
     WHERE c.relnamespace = 'outbox'::regnamespace AND c.relkind IN ('r', 'p') ORDER BY 1"""


def set_tenant(conn, tenant, local=False):
    conn.execute("SELECT set_config('app.current_tenant_id', %s, %s)", (str(tenant or ""), local))


def fill(db):
    """For each tenant, and for none: one message delivered, one retried after it was dead, one out, one waiting, one
    dead. Each claim has a session of its own: a session remembers how far it got."""
    for tenant in (ONE, TWO, None):
        def enqueue(what, key=None):
            db.sql("SELECT outbox.enqueue('t', jsonb_build_object('what', %s::text), key => %s, dedupe_key => %s, "
                   "tenant_id => %s, subject => %s, max_attempts => 1)", what, key, "%s/%s" % (tenant, what), tenant,
                   what)

        enqueue("delivered", "k")
        db.sql("SELECT outbox.ack(ARRAY[id], ARRAY[token]) FROM outbox.claim('w')")
        enqueue("redriven")
        db.sql("SELECT outbox.nack(ARRAY[id], ARRAY[token], ARRAY['no']) FROM outbox.claim('w')")
        db.sql("SELECT outbox.retry(topic => 't')")
        db.sql("SELECT outbox.release(ARRAY[id], ARRAY[token], '1 h') FROM outbox.claim('w')")
        enqueue("processing")
        db.sql("SELECT * FROM outbox.claim('w', lease => '1 h')")
        enqueue("waiting", "k")
        db.sql("SELECT outbox.release(ARRAY[id], ARRAY[token], '1 h') FROM outbox.claim('w')")
    for tenant in (ONE, TWO, None):
        db.sql("SELECT outbox.enqueue('t', '{\"what\": \"dead\"}', tenant_id => %s, max_attempts => 1)", tenant)
    db.sql("SELECT outbox.nack(array_agg(id), array_agg(token), array_agg('no'::text)) FROM outbox.claim('w')")


# ---- row security ----------------------------------------------------------------------------------------------------


def test_row_security_is_on_every_table_of_tenants(db):
    """V1: enabled and forced, on partitions too, also on those that purge makes later."""
    db.sql("SELECT outbox.configure('*', 'partition_width', '30 days')")
    db.sql("SELECT outbox.purge()")
    tables = db.sql(TENANT_TABLES)
    names = {row[0] for row in tables}
    assert names >= {"message", "message_default", "message_kept", "queue", "attempt", "attempt_default",
                     "attempt_kept",
                     "archived", "dead", "dedupe", "stream", "act", "hook_failure"}
    assert len([row for row in tables if row[3]]) >= 2 + 2 * 4
    for name, enabled, forced, partition, policies in tables:
        assert enabled and forced, name
        # A partition without a policy of its own shows nobody anything but through its parent.
        assert policies is None and partition or policies == ["api", "reader", "tenant", "views"], name


def test_tables_without_a_tenant_hold_no_content(db):
    """V1: what has no tenant_id is configuration: nothing of a message is in it."""
    marker = "marker-%s" % uuid.uuid4()
    with db.connect(autocommit=True) as conn:
        conn.execute("SELECT outbox.enqueue('t', to_jsonb(%(m)s::text), key => %(m)s, dedupe_key => %(t)s || '/' || "
                     "%(m)s, subject => %(m)s, recipient => %(m)s, correlation_id => %(m)s, tenant_id => %(t)s::uuid, "
                     "max_attempts => 1)",
                     {"m": marker, "t": str(ONE)})
        conn.execute("SELECT outbox.nack(ARRAY[id], ARRAY[token], ARRAY[%s]) FROM outbox.claim('w')", (marker,))
        of_tenants = {row[0] for row in conn.execute(TENANT_TABLES)}
        holding = set()
        for table, in conn.execute("SELECT relname FROM pg_class WHERE relnamespace = 'outbox'::regnamespace AND "
                                   "relkind = 'r'").fetchall():
            if conn.execute('SELECT 1 FROM outbox."%s" t WHERE t::text LIKE %%s' % table,
                            ("%" + marker + "%",)).fetchone():
                holding.add(table)
    assert holding and holding <= of_tenants


def test_the_owner_is_held_too(db):
    """V1: FORCE: the owner of the tables sees no row without a tenant, and that tenant's rows with one; it cannot write
    for another."""
    fill(db)
    with db.connect() as conn:
        conn.execute("SET ROLE outbox_owner")
        for table in ("message", "queue", "attempt", "dead", "dedupe", "stream", "act"):
            set_tenant(conn, None)
            assert conn.execute("SELECT count(*) FROM outbox.%s" % table).fetchone() == (0,), table
            set_tenant(conn, ONE)
            assert {row[0] for row in conn.execute("SELECT DISTINCT tenant_id FROM outbox.%s" % table)} == {ONE}, table
        refused(conn, "INSERT INTO outbox.dedupe (digest, id, tenant_id) VALUES (gen_random_uuid(), gen_random_uuid(), "
                      "'%s')" % TWO)
        refused(conn, "UPDATE outbox.queue SET tenant_id = '%s'" % TWO)
        assert conn.execute("UPDATE outbox.queue SET due = due WHERE tenant_id = %s", (TWO,)).rowcount == 0
        set_tenant(conn, None)
        assert conn.execute("DELETE FROM outbox.queue").rowcount == 0


@pytest.mark.parametrize("setting", ["nobody", "1", "'; DROP TABLE x; --", "%s\n" % ONE, "{%s" % ONE])
def test_a_senseless_tenant_sees_nothing_and_sends_nothing(db, setting):
    """V1: what is no uuid is an error, never everybody's rows. It says which setting, and what to do."""
    fill(db)
    before = db.sql("SELECT count(*) FROM outbox.messages")
    crowd = people(db)
    for group, statement in [("tenant", "SELECT * FROM outbox.messages"),
                             ("operator", "SELECT outbox.retry(before => now())"),
                             ("operator", "SELECT outbox.pause('n')"),
                             ("operator", "SELECT outbox.erase_tenant('%s')" % ONE),
                             ("relay", "SELECT * FROM outbox.claim('w')"),
                             ("producer", "SELECT outbox.enqueue('t', '1')"),
                             ("producer", "SELECT outbox.enqueue_many('[{\"topic\": \"t\", \"payload\": 1}]')")]:
        with crowd.connect(group) as conn:
            set_tenant(conn, setting)
            error = error_of(conn, statement)
            assert error.sqlstate == "OB002", (group, statement)
            assert 'app.current_tenant_id is "%s", which is not a uuid' % setting in error.message_primary
            assert "uuid of the tenant" in error.message_hint
    with crowd.connect("operator") as conn:  # the tables themselves, with no function between
        set_tenant(conn, setting)
        refused(conn, "SELECT * FROM outbox.message", code="OB002")
    assert db.sql("SELECT count(*) FROM outbox.messages") == before


@pytest.mark.parametrize("setting", [ONE.hex.upper(), "{%s}" % ONE, "-".join(ONE.hex[i:i + 4] for i in range(0, 32, 4))])
def test_every_way_to_write_a_uuid(db, setting):
    """V1: a session's tenant may be written in every way that PostgreSQL reads."""
    with db.connect() as conn:
        set_tenant(conn, setting)
        assert conn.execute("SELECT outbox.current_tenant(), %s::uuid", (setting,)).fetchone() == (ONE, ONE)


# ---- reading ---------------------------------------------------------------------------------------------------------


def test_a_tenant_reads_its_own_through_the_views(db):
    """V1 Y5: all of its own rows, none of another's, and none at all without a tenant."""
    fill(db)
    crowd = people(db)
    with crowd.connect("tenant") as conn:
        for tenant, other in ((ONE, TWO), (TWO, ONE)):
            set_tenant(conn, tenant)
            rows = conn.execute("SELECT tenant_id, payload ->> 'what', status FROM outbox.messages").fetchall()
            assert sorted(rows) == [(tenant, "dead", "dead"), (tenant, "delivered", "delivered"),
                                    (tenant, "processing", "processing"), (tenant, "redriven", "pending"),
                                    (tenant, "waiting", "pending")]
            assert conn.execute("SELECT count(*) FROM outbox.messages WHERE tenant_id = %s",
                                (other,)).fetchone() == (0,)
            attempts = conn.execute("SELECT tenant_id, outcome FROM outbox.attempts").fetchall()
            assert sorted(attempts) == [(tenant, "delivered"), (tenant, "failed"), (tenant, "failed"),
                                        (tenant, "processing")]
            assert conn.execute("SELECT tenant_id FROM outbox.dead_letters").fetchall() == [(tenant,)]
            assert conn.execute("SELECT tenant_id, action FROM outbox.acts").fetchall() == [(tenant, "retry")]
        for nothing in (None, ""):
            set_tenant(conn, nothing)
            for view in ("messages", "attempts", "dead_letters", "acts"):
                assert conn.execute("SELECT count(*) FROM outbox.%s" % view).fetchone() == (0,)


def test_after_set_local_ended(db):
    """V1: a transaction's SET LOCAL leaves '' behind, which is no tenant: an operator then sees all, a tenant nothing,
    and enqueue takes none."""
    fill(db)
    crowd = people(db)
    with crowd.connect("tenant", autocommit=True) as conn:
        with conn.transaction():
            set_tenant(conn, ONE, local=True)
            assert conn.execute("SELECT count(*) FROM outbox.messages").fetchone() == (5,)
        assert conn.execute("SELECT current_setting('app.current_tenant_id', true)").fetchone() == ("",)
        assert conn.execute("SELECT count(*) FROM outbox.messages").fetchone() == (0,)
    with crowd.connect("operator", autocommit=True) as conn:
        with conn.transaction():
            set_tenant(conn, ONE, local=True)
            assert conn.execute("SELECT count(*) FROM outbox.messages").fetchone() == (5,)
            assert conn.execute("SELECT count(*) FROM outbox.message").fetchone() == (5,)
        assert conn.execute("SELECT count(*) FROM outbox.messages").fetchone() == (15,)
        assert conn.execute("SELECT count(*) FROM outbox.message").fetchone() == (15,)
        assert conn.execute("SELECT count(*) FROM outbox.dead_letters").fetchone() == (3,)
    with crowd.connect("producer", autocommit=True) as conn:
        with conn.transaction():
            set_tenant(conn, ONE, local=True)
            mine = conn.execute("SELECT id FROM outbox.enqueue('u', '1')").fetchone()[0]
        none = conn.execute("SELECT id FROM outbox.enqueue('u', '1')").fetchone()[0]
        other = conn.execute("SELECT id FROM outbox.enqueue('u', '1', tenant_id => %s)", (TWO,)).fetchone()[0]
    tenants = dict(db.sql("SELECT id, tenant_id FROM outbox.message WHERE topic = 'u'"))
    assert tenants == {mine: ONE, none: None, other: TWO}
    with crowd.connect("relay", autocommit=True) as conn:
        with conn.transaction():
            set_tenant(conn, ONE, local=True)
        assert len(conn.execute("SELECT * FROM outbox.claim('w', topics => '{u}')").fetchall()) == 3


def test_operators_and_auditors_read_one_tenant_when_they_say_so(db):
    """V1 Y5: tables and views alike; the counts of status too."""
    fill(db)
    crowd = people(db)
    for group in ("operator", "auditor"):
        with crowd.connect(group, tenant=ONE) as conn:
            for name in ("message", "queue", "attempt", "dead", "dedupe", "act", "messages", "attempts", "dead_letters",
                         "acts") + (("stream",) if group == "operator" else ()):
                assert {row[0] for row in conn.execute("SELECT DISTINCT tenant_id FROM outbox.%s" % name)} == {ONE}, name
            assert conn.execute("SELECT pending, processing, dead FROM outbox.status").fetchall() == [(2, 1, 1)]
            set_tenant(conn, None)
            assert {row[0] for row in conn.execute("SELECT DISTINCT tenant_id FROM outbox.messages")} == {ONE, TWO,
                                                                                                          None}
            assert conn.execute("SELECT pending, processing, dead FROM outbox.status").fetchall() == [(6, 3, 3)]


# ---- acting ----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("call", ["retry", "discard"])
def test_an_operator_acts_for_one_tenant(db, call):
    """Y5 V1: by filter and by id, nothing of another tenant's is reached, and the act is on the tenant's record."""
    fill(db)
    dead = dict(db.sql("SELECT tenant_id, id FROM outbox.dead_letters"))
    with people(db).connect("operator", tenant=ONE, autocommit=True) as conn:
        for others in ([dead[TWO]], [dead[None]], [dead[TWO], dead[None]]):
            assert conn.execute("SELECT outbox.%s(ids => %%s)" % call, (others,)).fetchone() == (0,)
        assert conn.execute("SELECT outbox.%s(tenant => %%s)" % call, (TWO,)).fetchone() == (0,)
        assert conn.execute("SELECT outbox.%s(before => now(), topic => 't', actor => 'ann', reason => 'asked')" % call).fetchone() == (1,)
        assert conn.execute("SELECT actor, reason, message_id FROM outbox.acts WHERE action = %s ORDER BY id DESC "
                            "LIMIT 1",
                            (call,)).fetchone() == ("ann", "asked", dead[ONE])
    assert dict(db.sql("SELECT tenant_id, id FROM outbox.dead_letters")) == {TWO: dead[TWO], None: dead[None]}


def test_what_all_share_is_not_changed_for_one_tenant(db):
    """V1 Y5: pauses, settings, doorbells and hooks are everybody's: a session with a tenant is refused, with the way
    out."""
    db.sql("SELECT outbox.pause('n')")
    before = db.sql("SELECT (SELECT jsonb_agg(p) FROM outbox.pause p), (SELECT jsonb_agg(n) FROM outbox.namespace n), "
                    "(SELECT jsonb_agg(l) FROM outbox.lane l), (SELECT count(*) FROM outbox.act)")
    with people(db).connect("operator", tenant=ONE) as conn:
        for statement in ("outbox.pause()", "outbox.pause('default', 't')", "outbox.resume('n')", "outbox.unhook(1)",
                          "outbox.configure('*', 'max_attempts', '1')", "outbox.assign_doorbell('n', 't', 3)",
                          "outbox.hook('pg_catalog.jsonb_typeof(jsonb)')"):
            error = error_of(conn, "SELECT " + statement)
            assert error.sqlstate == "OB002", statement
            assert "app.current_tenant_id" in error.message_hint
    assert db.sql("SELECT (SELECT jsonb_agg(p) FROM outbox.pause p), (SELECT jsonb_agg(n) FROM outbox.namespace n), "
                  "(SELECT jsonb_agg(l) FROM outbox.lane l), (SELECT count(*) FROM outbox.act)") == before


def test_a_worker_of_one_tenant(db):
    """V1 Y5 M18: a relay's session with a tenant claims that tenant's messages, asks for no other's, and settles no
    other's."""
    for tenant in (ONE, TWO, None):
        db.sql("SELECT outbox.enqueue('t', '1', tenant_id => %s, key => 'k')", tenant)
    crowd = people(db)
    with crowd.connect("relay", autocommit=True) as all_of_them:
        foreign = all_of_them.execute("SELECT id, token FROM outbox.claim('all', tenant => %s)", (TWO,)).fetchone()
    with crowd.connect("relay", tenant=ONE, autocommit=True) as conn:
        assert error_of(conn, "SELECT * FROM outbox.claim('w', tenant => %s)", (TWO,)).sqlstate == "OB002"
        for call in ("outbox.ack(%s, %s)", "outbox.extend(%s, %s)", "outbox.release(%s, %s)",
                     "outbox.nack(%s, %s, ARRAY['no'])"):
            assert error_of(conn, "SELECT " + call, ([foreign[0]], [foreign[1]])).sqlstate == "OB002", call
        mine = conn.execute("SELECT id, token, tenant_id FROM outbox.claim('w')").fetchall()
        assert [row[2] for row in mine] == [ONE]
        assert conn.execute("SELECT * FROM outbox.claim('w')").fetchall() == []
        assert conn.execute("SELECT result FROM outbox.extend(%s, %s)",
                            ([mine[0][0]], [mine[0][1]])).fetchone() == ("ok",)
        assert conn.execute("SELECT result FROM outbox.ack(%s, %s)", ([mine[0][0]], [mine[0][1]])).fetchone() == ("ok",)
    assert db.sql("SELECT tenant_id, status FROM outbox.messages ORDER BY tenant_id") \
        == [(ONE, "delivered"), (TWO, "processing"), (None, "pending")]


def test_claim_for_one_tenant(db):
    """M18: without a session's tenant, the claim's argument chooses."""
    for tenant in (ONE, TWO, None):
        db.sql("SELECT outbox.enqueue('t', '1', tenant_id => %s)", tenant)
    claimed = db.sql("SELECT tenant_id FROM outbox.claim('w', tenant => %s)", TWO)
    assert claimed == [(TWO,)]
    assert len(db.sql("SELECT tenant_id FROM outbox.claim('w')")) == 2


# ---- sending ---------------------------------------------------------------------------------------------------------

MANY = "SELECT id, created, seq FROM outbox.enqueue_many(jsonb_build_array(jsonb_strip_nulls(jsonb_build_object(" \
       "'topic', 't', 'payload', 1, 'key', 'k', 'tenant_id', %(tenant)s::uuid, 'dedupe_key', %(dedupe)s::text))))"
WAYS = {
    "enqueue": "SELECT id, created, seq FROM outbox.enqueue('t', '1', key => 'k', tenant_id => %(tenant)s, dedupe_key "
               "=> %(dedupe)s)",
    "enqueue_bytes": "SELECT id, created, seq FROM outbox.enqueue_bytes('t', 'x', key => 'k', tenant_id => %(tenant)s, "
                     "dedupe_key => %(dedupe)s)",
    "enqueue_many": MANY,
}


@pytest.fixture(params=WAYS)
def way(request):
    return WAYS[request.param]


def test_enqueue_takes_the_sessions_tenant(db, way):
    """V1: and refuses another, without a trace."""
    with people(db).connect("producer", tenant=ONE, autocommit=True) as conn:
        assert conn.execute(way, {"tenant": None, "dedupe": None}).fetchone()[1:] == (True, 1)
        assert conn.execute(way, {"tenant": ONE, "dedupe": None}).fetchone()[1:] == (True, 2)
        error = error_of(conn, way, {"tenant": TWO, "dedupe": None})
        assert error.sqlstate == "OB002" and str(TWO) in error.message_primary and str(ONE) in error.message_primary
        assert conn.execute(way, {"tenant": None, "dedupe": None}).fetchone()[1:] == (True, 3)
    assert db.sql("SELECT DISTINCT tenant_id FROM outbox.message") == [(ONE,)]


def test_the_same_key_in_two_tenants_is_two_keys(db, way):
    """S2 V1: each has a sequence of its own, and none waits for the other's."""
    with people(db).connect("producer", autocommit=True) as conn:
        for tenant in (ONE, TWO, None):
            assert [conn.execute(way, {"tenant": tenant, "dedupe": None}).fetchone()[2] for _ in range(3)] == [1, 2, 3]
    assert len(db.sql("SELECT * FROM outbox.claim('w', 9)")) == 3, "the first of each"


@pytest.mark.parametrize("dedupe, fits", [(str(ONE) + "/a", True), (str(ONE) + "/", True), (str(ONE), False), ("a", False),
                                          (str(TWO) + "/a", False), (str(ONE)[:-1] + "/a", False),
                                          ("/" + str(ONE) + "/a", False),
                                          (str(ONE).replace("-", "") + "/a", False)])
def test_m5_dedupe_keys_begin_with_the_tenant(db, way, dedupe, fits):
    """M5: otherwise an error and no row, no key, no number."""
    with people(db).connect("producer", autocommit=True) as conn:
        if fits:
            assert conn.execute(way, {"tenant": ONE, "dedupe": dedupe}).fetchone()[1:] == (True, 1)
        else:
            error = error_of(conn, way, {"tenant": ONE, "dedupe": dedupe})
            assert error.sqlstate == "OB003" and str(ONE) + "/" in error.message_primary and error.message_hint
            assert db.sql("SELECT (SELECT count(*) FROM outbox.message), (SELECT count(*) FROM outbox.queue), (SELECT "
                          "count(*) FROM outbox.dedupe), (SELECT count(*) FROM outbox.stream)") == [(0, 0, 0, 0)]
        # Without a tenant any key will do.
        assert conn.execute(way, {"tenant": None, "dedupe": "x" + dedupe}).fetchone()[1:] == (True, 1)


def test_m5_upper_case(db, way):
    """M5: the tenant's uuid text is PostgreSQL's, in lower case: a key with it in upper case is another text."""
    tenant = uuid.UUID("abcdefab-cdef-4abc-8def-abcdefabcdef")
    with people(db).connect("producer", autocommit=True) as conn:
        assert error_of(conn, way, {"tenant": tenant, "dedupe": str(tenant).upper() + "/a"}).sqlstate == "OB003"


def test_m5_can_be_switched_off(db, way):
    """M5: a setting per namespace, on by default; off, a key of another tenant still is refused, and its message's id
    is not told."""
    db.sql("SELECT outbox.configure('default', 'tenant_prefix', 'off')")
    with people(db).connect("producer", autocommit=True) as conn:
        first = conn.execute(way, {"tenant": ONE, "dedupe": "a"}).fetchone()
        assert conn.execute(way, {"tenant": ONE, "dedupe": "a"}).fetchone() == (first[0], False, first[2])
        for tenant in (TWO, None):
            error = error_of(conn, way, {"tenant": tenant, "dedupe": "a"})
            assert error.sqlstate == "OB003"
            told = json.dumps([error.message_primary, error.message_detail, error.message_hint])
            assert str(first[0]) not in told and str(ONE) not in told
    assert db.sql("SELECT count(*) FROM outbox.message") == [(1,)]
